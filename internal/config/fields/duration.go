package fields

import (
	"errors"
	"fmt"
	"time"
)

// Duration is a duration such as 15s; zero where the file sets none.
type Duration time.Duration

// UnmarshalText refuses 0s, which the default would silently replace.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed < 0 {
		return fmt.Errorf("must be a duration such as 15s, not %.40q", text)
	}
	if parsed == 0 {
		return errors.New("must be above 0s; leave it out for the default")
	}
	*d = Duration(parsed)
	return nil
}

// Or returns d, or def if d is zero.
func (d Duration) Or(def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return time.Duration(d)
}
