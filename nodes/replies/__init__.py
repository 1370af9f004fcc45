"""Reading what models reply: JSON, programs, edits. Pure; whatever cannot be used is a ReplyError."""
