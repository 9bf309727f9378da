"""`harness doctor`: what is wrong with the installed plugins, or with the files of a store."""
