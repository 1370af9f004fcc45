"""Sources of a strict task: put together into its reference, its probe and the wrapper of programs (strict_source.py).

They run without ksearch, as text: they need the standard library and torch only, and import each other by `from ...
import` of names, all different.
"""
