package challenge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/actionproof/mediator/evidence"
)

// vm asks for the final state of a small register machine.
type vm struct{}

type vmInput struct {
	Program []instruction `json:"program"`
}

// instruction is an operation, a register, and either a register or a number.
type instruction struct {
	Op  string `json:"op"`
	Reg string `json:"reg"`
	Src string `json:"src,omitempty"` // a register; Num counts where it is absent
	Num int    `json:"num,omitempty"`
}

const (
	maxProgram = 256
	maxSteps   = 20_000
	wordMask   = 0xFFFF
	maxOperand = 1 << 16
)

var registers = []string{"a", "b", "c", "d"}

func (vm) Kind() string { return "vm" }

func (vm) Instructions() string {
	return `The input is the "program" of a machine with four registers a, b, c, d, all 0 at the start. Run it from its first instruction; it ends after the last. Each instruction has "op", a register "reg" and an operand: the value of register "src" if there is one, else the number "num" (0 if absent). set: reg = operand. add, sub, mul, xor: reg = reg op operand, modulo 65536 (never negative). jnz: if reg is not 0, go on num instructions further (negative: back), otherwise with the next one. The answer text is the final registers as a=1,b=2,c=3,d=4. Submit the lowercase hex SHA-256 of the answer text.`
}

func (p vm) Generate(r io.Reader, d Difficulty) (any, string, error) {
	rnd := &random{r: r}
	ops := []string{"add", "sub", "mul", "xor"}
	var in vmInput
	for _, reg := range registers {
		in.Program = append(in.Program, instruction{Op: "set", Reg: reg, Num: rnd.between(1, 999)})
	}
	for range pick(d, 1, 2, 4) { // loops over d, which counts down and is touched by nothing else
		in.Program = append(in.Program, instruction{Op: "set", Reg: "d", Num: rnd.between(3, pick(d, 5, 9, 30))})
		body := rnd.between(2, pick(d, 2, 3, 6))
		for range body {
			i := instruction{Op: ops[rnd.below(len(ops))], Reg: registers[rnd.below(3)]}
			if rnd.below(2) == 0 {
				i.Src = registers[rnd.below(4)]
			} else {
				i.Num = rnd.between(1, 999)
			}
			in.Program = append(in.Program, i)
		}
		in.Program = append(in.Program, instruction{Op: "sub", Reg: "d", Num: 1}, instruction{Op: "jnz", Reg: "d", Num: -(body + 1)})
	}
	answer, ok := execute(in.Program)
	if rnd.err == nil && !ok {
		return nil, "", malformed(p.Kind())
	}
	return in, answer, rnd.err
}

func (p vm) Solve(_ context.Context, raw json.RawMessage) (string, error) {
	var in vmInput
	if err := evidence.ParseStrict(raw, &in); err != nil || len(in.Program) > maxProgram {
		return "", malformed(p.Kind())
	}
	answer, ok := execute(in.Program)
	if !ok {
		return "", malformed(p.Kind())
	}
	return answer, nil
}

// execute runs a program, at most maxSteps instructions of it.
func execute(program []instruction) (string, bool) {
	var reg [4]int
	at := 0
	for steps := 0; at >= 0 && at < len(program); steps++ {
		i := program[at]
		r, ok := register(i.Reg)
		if !ok || steps == maxSteps || i.Num > maxOperand || i.Num < -maxOperand {
			return "", false
		}
		operand := i.Num
		if i.Src != "" {
			src, ok := register(i.Src)
			if !ok {
				return "", false
			}
			operand = reg[src]
		}
		at++
		switch i.Op {
		case "set":
			reg[r] = operand & wordMask
		case "add":
			reg[r] = (reg[r] + operand) & wordMask
		case "sub":
			reg[r] = (reg[r] - operand) & wordMask
		case "mul":
			reg[r] = reg[r] * operand & wordMask
		case "xor":
			reg[r] = (reg[r] ^ operand) & wordMask
		case "jnz":
			if reg[r] != 0 {
				at += i.Num - 1
			}
		default:
			return "", false
		}
	}
	return fmt.Sprintf("a=%d,b=%d,c=%d,d=%d", reg[0], reg[1], reg[2], reg[3]), true
}

func register(name string) (int, bool) {
	if len(name) != 1 || name[0] < 'a' || name[0] > 'd' {
		return 0, false
	}
	return int(name[0] - 'a'), true
}
