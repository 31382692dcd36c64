package vault

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/vault/api"
)

// why explains an error without tokens and bodies.
func why(err error) string {
	var answer *api.ResponseError
	var wait net.Error
	var login loginError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &login):
		return login.detail
	case errors.As(err, &certificate):
		return "Vault's certificate is not good: " + certificate.Err.Error()
	case errors.As(err, &answer):
		return answered(answer)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &wait) && wait.Timeout():
		return "Vault does not answer in time"
	case errors.Is(err, context.Canceled):
		return "the caller has gone"
	case errors.As(err, &wait):
		return "Vault cannot be reached"
	}
	return "Vault's answer is of no use"
}

func answered(e *api.ResponseError) string {
	switch {
	case invalidToken(e):
		return "Vault does not know the token any more"
	case e.StatusCode == http.StatusForbidden:
		return "Vault denies it to this role (403): compare the role's policy with what `mediator vault bootstrap " +
			"--print` shows"
	case e.StatusCode == http.StatusTooManyRequests:
		return "Vault has too many requests (429)"
	case e.StatusCode == http.StatusServiceUnavailable && said(e, "sealed"):
		return "Vault is sealed (503)"
	case said(e, "active cluster node not found"):
		return "no node of Vault is active"
	case e.StatusCode == http.StatusInternalServerError:
		return "Vault fails (500): see its log; an audit device that is full or gone does this"
	}
	return fmt.Sprintf("Vault answers %d", e.StatusCode)
}

const maxReason = 400

// reason quotes Vault's reason, for administrators only.
func reason(e *api.ResponseError) string {
	if len(e.Errors) == 0 {
		return ""
	}
	return fmt.Sprintf("; Vault says %.*q", maxReason, strings.Join(e.Errors, "; "))
}

func refuses(e *api.ResponseError) bool {
	return e.StatusCode < 500 && e.StatusCode != http.StatusTooManyRequests
}

func said(e *api.ResponseError, what string) bool {
	return slices.ContainsFunc(e.Errors, func(s string) bool { return strings.Contains(s, what) })
}

// invalidToken reports whether Vault does not know the token, which is not the same as a missing right.
func invalidToken(err error) bool {
	var answer *api.ResponseError
	return errors.As(err, &answer) && answer.StatusCode == http.StatusForbidden && said(answer, "invalid token")
}

// isDenied reports whether Vault knows the token, and denies it the request.
func isDenied(err error) bool {
	var answer *api.ResponseError
	return errors.As(err, &answer) && answer.StatusCode == http.StatusForbidden && !invalidToken(err)
}

// broken reports whether the connection broke: there was neither an answer nor a timeout.
func broken(err error) bool {
	var answer *api.ResponseError
	var login loginError
	var wait net.Error
	return err != nil && !errors.As(err, &answer) && !errors.As(err, &login) &&
		!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) &&
		!(errors.As(err, &wait) && wait.Timeout())
}
