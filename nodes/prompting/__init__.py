"""What prompts are filled with: the specification, the tree, figures and changes of programs."""
