module flowd

go 1.22
