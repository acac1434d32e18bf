"""Jobs in order: a file that names them, what each needs of the others, and one report at the end."""
