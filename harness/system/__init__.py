"""What the harness needs of the machine: child processes, the terminal, files, JSON from outside, libraries.

Nothing here knows of tasks, pools or results. `children` and its `warden` end processes, `progress` and `console` speak
to the user, `files` and `json_text` read what others have written.
"""
