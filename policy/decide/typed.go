package decide

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// typedComparison makes a comparison of two types an error. CEL only calls such values unequal: args.repo != "prod"
// would hold for ["prod"], and a tool that takes both forms would be called.
func typedComparison() cel.ProgramOption {
	return cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := i.(interpreter.InterpretableCall)
		if !ok {
			return i, nil
		}
		switch call.Function() { // each has two operands
		case operators.Equals:
			return comparison{call, call, "compared with", sameType, types.Equal}, nil
		case operators.NotEquals:
			return comparison{call, call, "compared with", sameType, unequal}, nil
		case operators.In:
			return comparison{call, call, "looked for in", mayHold, contained}, nil
		}
		return i, nil
	})
}

// comparison compares two operands of comparable types. It hides that it is a call, because the optimizer would replace
// it.
type comparison struct {
	interpreter.InterpretableV2
	call       interpreter.InterpretableCall
	how        string
	comparable func(left, right ref.Val) bool
	compare    func(left, right ref.Val) ref.Val
}

func (c comparison) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	left := c.call.Args()[0].Exec(frame)
	if types.IsUnknownOrError(left) {
		return left
	}
	right := c.call.Args()[1].Exec(frame)
	if types.IsUnknownOrError(right) {
		return right
	}
	if !c.comparable(left, right) {
		return types.NewErr("a value of type %s is %s one of type %s", left.Type().TypeName(), c.how,
			right.Type().TypeName())
	}
	result := c.compare(left, right)
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalBinary(frame, c.ID(), c.call, left, right, result)
	}
	return result
}

func (c comparison) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, c.Exec)
}

func unequal(left, right ref.Val) ref.Val { return types.Bool(types.Equal(left, right) != types.True) }

func contained(value, in ref.Val) ref.Val { return in.(traits.Container).Contains(value) }

// sameType reports whether two values have one type. All numbers do.
func sameType(left, right ref.Val) bool { return kindOf(left) == kindOf(right) }

// mayHold reports whether a list or a map can hold a value of this type. An empty one can hold any.
func mayHold(value, in ref.Val) bool {
	if _, ok := in.(traits.Mapper); ok {
		return value.Type() == types.StringType
	}
	list, ok := in.(traits.Lister)
	if !ok {
		return false
	}
	for it := list.Iterator(); it.HasNext() == types.True; {
		if held := it.Next(); !sameType(value, held) {
			return false
		}
	}
	return true
}

func kindOf(v ref.Val) string {
	switch t := v.Type(); t {
	case types.IntType, types.UintType, types.DoubleType:
		return "number"
	default:
		return t.TypeName()
	}
}
