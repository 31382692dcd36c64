module github.com/actionproof/mediator/test/deploy/debian

go 1.26
