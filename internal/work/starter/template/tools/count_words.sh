# The arguments come as one JSON object on standard input. The output is the answer.
wc -w < "$(cut -d '"' -f 4)"
