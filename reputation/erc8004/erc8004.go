// Package erc8004 writes what ERC-8004 (Trustless Agents) publishes of an agent: registration and feedback files, and
// the data of the calls that put them on a chain. It sends nothing, and holds no key: any wallet sends the calls.
//
// A feedback file has a node's token. Both files are in the calls themselves, as data URIs, so that the chain's data
// and the public keys are enough to verify a feedback.
package erc8004

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"

	"golang.org/x/crypto/sha3"

	"github.com/actionproof/mediator/internal/pattern"
	"github.com/actionproof/mediator/internal/refusal"
)

// Agent is an agent's entry in an identity registry.
type Agent struct {
	Registry string // CAIP-10, such as eip155:8453:0x8004...
	ID       *int64 // nil before the agent is registered
}

var (
	agentForm   = pattern.New(`^(eip155:[1-9][0-9]{0,17}:0x[0-9a-fA-F]{40})(?::(0|[1-9][0-9]{0,17}))?$`)
	addressForm = pattern.New(`^0x[0-9a-fA-F]{40}$`)
)

// ParseAgent reads eip155:CHAIN:ADDRESS, or eip155:CHAIN:ADDRESS:ID of a registered agent.
func ParseAgent(text string) (Agent, error) {
	parts := agentForm().FindStringSubmatch(text)
	if parts == nil {
		return Agent{}, fmt.Errorf("%.300q is not an identity registry or one of its agents, as in "+
			"eip155:8453:0x8004...:22", text)
	}
	a := Agent{Registry: parts[1]}
	if parts[2] != "" {
		id, err := strconv.ParseInt(parts[2], 10, 64)
		if err != nil {
			return Agent{}, err
		}
		a.ID = &id
	}
	return a, nil
}

// Call is a call of a registry.
type Call struct {
	Registry string          `json:"registry"` // identity or reputation
	Function string          `json:"function"`
	Calldata string          `json:"calldata"`       // hexadecimal
	File     json.RawMessage `json:"file,omitempty"` // that the call publishes
}

func callOf(registry, function string, args ...any) Call {
	return Call{Registry: registry, Function: function, Calldata: "0x" + hex.EncodeToString(encode(function, args...))}
}

type registration struct {
	Type          string       `json:"type"`
	Name          string       `json:"name"`
	Description   string       `json:"description"`
	Image         string       `json:"image"`
	Services      []struct{}   `json:"services"`
	X402Support   bool         `json:"x402Support"`
	Active        bool         `json:"active"`
	Registrations []registered `json:"registrations"`
	Trust         []string     `json:"supportedTrust"`
}

type registered struct {
	ID       int64  `json:"agentId"`
	Registry string `json:"agentRegistry"`
}

// Register returns the call that registers an agent with this id at nodes, or replaces a registered one's file.
func (a Agent) Register(id string) (Call, error) {
	r := registration{
		Type: "https://eips.ethereum.org/EIPS/eip-8004#registration-v1", Name: id,
		Description: "An agent whose posts carry ActionProof's evidence. Its name begins with its key registry's thumbprint.",
		Image:       "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg'/%3E",
		Services:    []struct{}{}, Active: true, Registrations: []registered{}, Trust: []string{"reputation"},
	}
	if a.ID != nil {
		r.Registrations = []registered{{*a.ID, a.Registry}}
	}
	file, err := json.Marshal(r)
	if err != nil {
		return Call{}, err
	}
	c := callOf("identity", "register(string)", uri(file))
	if a.ID != nil {
		c = callOf("identity", "setAgentURI(uint256,string)", *a.ID, uri(file))
	}
	c.File = file
	return c, nil
}

// Statement is what a node's token says of an agent.
type Statement struct {
	Token  string
	Type   string  // of the token
	Score  float64 // from 0 to 100
	Issued int64   // Unix seconds
}

// decimals of a feedback's value. A token has more; the file carries it.
const decimals = 2

func valueOf(score float64) int64 { return int64(math.Round(score * 100)) }

type feedback struct {
	Registry  string `json:"agentRegistry"`
	ID        int64  `json:"agentId"`
	Client    string `json:"clientAddress"`
	Created   string `json:"createdAt"`
	Value     int64  `json:"value"`
	Decimals  uint8  `json:"valueDecimals"`
	Tag       string `json:"tag1"`
	TokenType string `json:"tag2"`
	Token     string `json:"token"`
}

// Feedback returns the call by which a client, who does not own the agent, publishes what a node says of the agent.
func (a Agent) Feedback(client string, s Statement) (Call, error) {
	if a.ID == nil || !addressForm.MatchString(client) {
		return Call{}, fmt.Errorf("feedback needs the agent's ID in the registry and a client's address, not %.300q", client)
	}
	chain := a.Registry[:len(a.Registry)-len(client)]
	f := feedback{Registry: a.Registry, ID: *a.ID, Client: chain + client,
		Created: time.Unix(s.Issued, 0).UTC().Format(time.RFC3339), Value: valueOf(s.Score), Decimals: decimals,
		Tag: "actionproof", TokenType: s.Type, Token: s.Token}
	file, err := json.Marshal(f)
	if err != nil {
		return Call{}, err
	}
	c := callOf("reputation", "giveFeedback(uint256,int128,uint8,string,string,string,string,bytes32)",
		f.ID, f.Value, int64(f.Decimals), f.Tag, f.TokenType, "", uri(file), keccak(file))
	c.File = file
	return c, nil
}

// Revoke returns the call by which a client takes back its feedback with an index, which counts from 1.
func (a Agent) Revoke(index int64) (Call, error) {
	if a.ID == nil || index < 1 {
		return Call{}, fmt.Errorf("revoking needs the agent's ID in the registry, and the index of a feedback from 1 on")
	}
	return callOf("reputation", "revokeFeedback(uint256,uint64)", *a.ID, index), nil
}

// Value is the value of a feedback file. Value.Value is nil for other files.
type Value struct {
	Value    *int64 `json:"value,omitempty"`
	Decimals uint8  `json:"valueDecimals,omitempty"`
}

// Agrees refuses another value than the score of the file's token (evidence_malformed).
func (v Value) Agrees(score float64) error {
	if v.Value == nil || (*v.Value == valueOf(score) && v.Decimals == decimals) {
		return nil
	}
	return refusal.New("evidence_malformed", "the feedback's value is %d with %d decimals, but its token says %.2f",
		*v.Value, v.Decimals, score)
}

func uri(file []byte) string {
	return "data:application/json;base64," + base64.StdEncoding.EncodeToString(file)
}

func keccak(of []byte) (hash [32]byte) {
	h := sha3.NewLegacyKeccak256()
	h.Write(of)
	h.Sum(hash[:0])
	return hash
}

const word = 32 // bytes

// encode returns a call's data by the contract ABI of Solidity: a selector, a word for each argument, and the texts,
// whose words have their offsets. An argument is a whole number from 0, a hash or a text.
func encode(function string, args ...any) []byte {
	selector := keccak([]byte(function))
	var head, tail []byte
	for _, arg := range args {
		switch v := arg.(type) {
		case int64:
			head = number(head, v)
		case [word]byte:
			head = append(head, v[:]...)
		case string:
			head = number(head, int64(word*len(args)+len(tail)))
			tail = append(number(tail, int64(len(v))), v...)
			tail = append(tail, make([]byte, -len(tail)&(word-1))...)
		}
	}
	return append(append(selector[:4], head...), tail...)
}

func number(to []byte, v int64) []byte {
	return append(to, big.NewInt(v).FillBytes(make([]byte, word))...)
}
