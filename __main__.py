"""The root program: every stack runs the file in stacks/ that it is named after."""

from symphony import run_program

run_program("stacks")
