package start

// BudgetHelp describes --budget.
const BudgetHelp = "`tokens=N,turns=N,time=D,turn=D,approvals=N,commands=N,money=M`, or some of them: what the session may use in all, and (turn) the longest turn; a running turn is interrupted where it ends"
