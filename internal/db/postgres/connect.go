package postgres

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/ledger"
)

const (
	// maxConns bounds the connections of one process. PostgreSQL admits 100 by default.
	maxConns = 16
	// connectTimeout bounds one attempt to connect.
	connectTimeout = 5 * time.Second
)

// parameters are the settings of each connection unless the DSN has its own. Those for durability are read back.
var parameters = map[string]string{
	"application_name":   "mediator",
	"synchronous_commit": "on", // not the role's default
	"statement_timeout":  strconv.FormatInt(operation.Milliseconds(), 10),
	// a plan from when a table was small would read all of it
	"plan_cache_mode": "force_custom_plan",
	"lock_timeout":    strconv.FormatInt(operation.Milliseconds(), 10),
	// a stuck process must not hold keys
	"idle_in_transaction_session_timeout": strconv.FormatInt(operation.Milliseconds(), 10),
}

// Check finds errors in dsn without connecting.
func Check(dsn string) error {
	_, err := parse(dsn)
	return err
}

// Ports returns the TCP ports of the servers that dsn names, none for unix sockets.
func Ports(dsn string) ([]uint16, error) {
	config, err := parse(dsn)
	if err != nil {
		return nil, err
	}
	var ports []uint16
	for _, way := range append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port}}, config.Fallbacks...) {
		if network, _ := pgconn.NetworkAddress(way.Host, way.Port); network == "tcp" {
			ports = append(ports, way.Port)
		}
	}
	return ports, nil
}

func parse(dsn string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		// the cause could show its password
		return nil, errors.New("the DSN is not a PostgreSQL URL or keyword/value string")
	}
	for _, way := range append([]*pgconn.FallbackConfig{{Host: config.Host, TLSConfig: config.TLSConfig}},
		config.Fallbacks...) {
		if !local(way.Host) && !verifies(way.TLSConfig) {
			return nil, fmt.Errorf("the DSN must have sslmode=verify-full, because %s is not on this machine", way.Host)
		}
	}
	for name, value := range parameters {
		if config.RuntimeParams[name] == "" {
			config.RuntimeParams[name] = value
		}
	}
	if config.ConnectTimeout == 0 || config.ConnectTimeout > connectTimeout {
		config.ConnectTimeout = connectTimeout
	}
	return config, nil
}

// connect returns a pool that checks of each new connection that its commits are durable. Names without a schema belong
// to s.
func connect(dsn string, s db.Schema) (*sql.DB, error) {
	config, err := parse(dsn)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["search_path"] = s.Name
	if s.Existing {
		config.RuntimeParams["default_transaction_read_only"] = "on"
	}
	pool := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		var commit, fsync string
		err := c.QueryRow(ctx, `SELECT current_setting('synchronous_commit'), current_setting('fsync')`).
			Scan(&commit, &fsync)
		if err != nil {
			return err
		}
		return Durable(commit, fsync)
	}))
	pool.SetMaxOpenConns(maxConns)
	pool.SetMaxIdleConns(maxConns)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	return pool, nil
}

// Durable refuses the settings of a database that could lose a commit.
func Durable(commit, fsync string) error {
	if commit != "on" && commit != "remote_apply" || fsync != "on" {
		return fmt.Errorf(
			"the database runs with synchronous_commit=%s and fsync=%s, and could forget a consumed "+
				"key: both have to be on", commit, fsync)
	}
	return nil
}

// Discreet returns why a server cannot be reached, without its address and user. A missing socket is no missing file.
func Discreet(err error) error {
	var dial *pgconn.ConnectError
	var broken *net.OpError
	if !errors.As(err, &dial) && !errors.As(err, &broken) {
		return err
	}
	var number syscall.Errno
	var said *pgconn.PgError
	why := "the connection fails"
	switch {
	case errors.As(err, &said):
		why = "the server answers SQLSTATE " + said.Code
	case errors.As(err, &number):
		why = number.Error()
	case errors.Is(err, context.DeadlineExceeded), pgconn.Timeout(err):
		why = "it takes too long"
	}
	return ledger.Unavailable("reach the database", errors.New(why))
}

func verifies(t *tls.Config) bool { return t != nil && !t.InsecureSkipVerify }

func local(host string) bool {
	a, err := netip.ParseAddr(host) // a name could resolve to anything
	return strings.HasPrefix(host, "/") || err == nil && a.IsLoopback()
}
