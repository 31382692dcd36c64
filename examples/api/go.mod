// An API that takes part. Copy this folder, and say where the mediator's source is:
//
//	go mod edit -replace github.com/actionproof/mediator=/path/to/mediator
module example.com/api

go 1.26.0

require (
	github.com/actionproof/mediator v0.0.0
	github.com/jackc/pgx/v5 v5.12.0
)

require (
	github.com/cloudflare/circl v1.6.5 // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
	github.com/go-jose/go-jose/v4 v4.1.8 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
