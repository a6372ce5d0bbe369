words = ["one", "two", "three"]
i = 0
while i <= 3:
    print(words[i])
    i += 1
