"""`harness pool import|inspect|show|audit|hardest|export`: work on pools without a selector."""
