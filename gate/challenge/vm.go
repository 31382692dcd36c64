package challenge

import (
	"context"
	"io"
)

type vm struct{}

type vmInput struct {
	Modulus   int      `json:"modulus"`
	Program   []string `json:"program"`
	Registers []int    `json:"registers"`
}

const (
	registers  = 4
	counter    = registers - 1 // counts the rounds of a loop
	maxProgram = 256
	maxModulus = 1 << 20
	maxSteps   = 1 << 16
)

const vmInstructions = `Input: a program for a machine with the registers a, b, c, d, whose first values are ` +
	`"registers". Run it from its first line until it has passed its last. x is a register, y a register or a ` +
	`number, k a number. "set x y": x becomes y. "add x y", "sub x y", "mul x y": x becomes x+y, x-y, x*y modulo ` +
	`"modulus", never negative. "jnz x k": unless x is 0, go on k lines from here (back if k is negative), otherwise ` +
	`with the next line. "jlt x y k": the same, if x is less than y. The answer text is the last values of a, b, c, ` +
	`d with commas, such as 5,0,71,8.` + hashIt

func (vm) Kind() string { return "vm" }

func (p vm) Generate(r io.Reader, d Difficulty) (Task, string, error) {
	rnd := &random{r: r}
	in := vmInput{Modulus: rnd.between(20_000, 65_000), Registers: make([]int, registers)}
	for i := range in.Registers {
		in.Registers[i] = rnd.below(in.Modulus)
	}
	low, high := pick(d, 3, 5, 20), pick(d, 6, 12, 60)
	for range pick(d, 1, 2, 3) {
		in.Program = append(in.Program, drawLoop(rnd, rnd.between(low, high), pick(d, 3, 4, 7))...)
	}
	if rnd.err != nil {
		return Task{}, "", rnd.err
	}
	answer, ok := in.run()
	if !ok {
		return Task{}, "", errUnsolvable(p.Kind())
	}
	t, err := newTask(vmInstructions, in)
	return t, answer, err
}

// drawLoop draws a loop whose counter no other line touches, so it ends. One comparison may skip a line, so the result
// cannot be read off the program.
func drawLoop(rnd *random, rounds, size int) []string {
	ops := [...]string{"add", "sub", "mul"}
	lines := make([]string, 0, size+3)
	lines = append(lines, line("set", name(counter), rounds))
	skip := rnd.below(size - 1)
	for i := range size {
		x, y := rnd.two(counter)
		switch {
		case i == skip:
			lines = append(lines, "jlt "+name(x)+" "+name(y)+" 2")
		case rnd.below(2) == 0:
			lines = append(lines, line(ops[rnd.below(3)], name(x), rnd.between(2, 999)))
		default:
			lines = append(lines, ops[rnd.below(3)]+" "+name(x)+" "+name(y))
		}
	}
	return append(lines, line("sub", name(counter), 1), line("jnz", name(counter), -(size+1)))
}

func (p vm) Solve(_ context.Context, t Task) (string, error) {
	in := vmInput{Program: make([]string, 0, 32), Registers: make([]int, 0, registers)}
	if !decodeInput(t.Input, &in) {
		return "", errUnsolvable(p.Kind())
	}
	answer, ok := in.run()
	if !ok {
		return "", errUnsolvable(p.Kind())
	}
	return answer, nil
}

// run fails for an invalid program, more than maxSteps lines, and a jump outside.
func (in *vmInput) run() (string, bool) {
	if in.Modulus < 2 || in.Modulus > maxModulus || len(in.Registers) != registers || len(in.Program) > maxProgram {
		return "", false
	}
	m := machine{modulus: in.Modulus}
	for i, v := range in.Registers {
		if v < 0 || v >= in.Modulus {
			return "", false
		}
		m.reg[i] = v
	}
	program := make([]instruction, 0, 32) // enough for a standard program, and on the stack
	for _, line := range in.Program {
		i, ok := compile(line, in.Modulus)
		if !ok {
			return "", false
		}
		program = append(program, i)
	}
	for steps := 0; m.at != len(program); steps++ {
		if steps == maxSteps || m.at < 0 || m.at > len(program) {
			return "", false
		}
		m.step(program[m.at])
	}
	return string(appendList(make([]byte, 0, 32), m.reg[:])), true
}

type instruction struct {
	op   string
	x, y int
	yReg bool // y is a register
	k    int
}

// arity is the number of words of an instruction; zero for an unknown one.
func arity(op string) int {
	switch op {
	case "set", "add", "sub", "mul", "jnz":
		return 3
	case "jlt":
		return 4
	}
	return 0
}

func compile(line string, modulus int) (i instruction, ok bool) {
	w, n := words(line)
	if n == 0 || n != arity(w[0]) {
		return i, false
	}
	i.op = w[0]
	if i.x, ok = letter(w[1], registers); !ok {
		return i, false
	}
	if i.op == "jnz" {
		i.k, ok = number(w[2], -maxProgram, maxProgram)
		return i, ok
	}
	if i.y, i.yReg = letter(w[2], registers); !i.yReg {
		if i.y, ok = number(w[2], 0, modulus-1); !ok {
			return i, false
		}
	}
	if i.op == "jlt" {
		i.k, ok = number(w[3], -maxProgram, maxProgram)
	}
	return i, ok
}

type machine struct {
	reg     [registers]int
	modulus int
	at      int
}

func (m *machine) step(i instruction) {
	x, y := m.reg[i.x], i.y
	if i.yReg {
		y = m.reg[i.y]
	}
	next := 1
	switch i.op {
	case "set":
		m.reg[i.x] = y
	case "add":
		m.reg[i.x] = (x + y) % m.modulus
	case "sub":
		m.reg[i.x] = (x - y + m.modulus) % m.modulus
	case "mul":
		m.reg[i.x] = x * y % m.modulus
	case "jnz":
		if x != 0 {
			next = i.k
		}
	case "jlt":
		if x < y {
			next = i.k
		}
	}
	m.at += next
}
