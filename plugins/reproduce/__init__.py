"""The paper's figures and tables, each by one command."""
