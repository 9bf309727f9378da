"""`harness pool import|inspect|audit|hardest|export`: work on pools without a selector."""
