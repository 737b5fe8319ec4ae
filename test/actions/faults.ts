import { openSync } from 'node:fs'
import type { Due } from '../../src/engine/claim.ts'
import { type Definition, OperationFailed, type Step } from '../../src/engine/definition.ts'
import type { Moment } from '../../src/engine/runner.ts'

/** What is to go wrong with one operation. It travels in the operation's own input, so that whoever runs it knows. */
export interface Fault {
  /** `die`: the worker kills itself. `throw`: an error that may pass. `fail`: one that will not. `twice`: the step runs twice. */
  readonly what: 'die' | 'throw' | 'fail' | 'twice'
  readonly step: string
  readonly moment: Moment
  /** A file that does not exist yet and does once the fault has struck: it strikes once. */
  readonly mark: string
}

const faultsOf = ({ input }: { readonly input: unknown }) => (input as { faults?: Fault[] }).faults ?? []

/** What the worker calls around each step. */
export async function strike(operation: Due, moment: Moment): Promise<void> {
  for (const fault of faultsOf(operation)) {
    if (fault.step !== operation.step || fault.moment !== moment || !isFirst(fault.mark)) continue
    if (fault.what === 'throw') throw new Error(`an error ${moment} ${fault.step}`)
    if (fault.what === 'fail') throw new OperationFailed(`a failure ${moment} ${fault.step}`)
    if (fault.what === 'die') process.kill(process.pid, 'SIGKILL')
  }
}

/** Wraps the steps of an action so that each runs twice in a row where the operation asks for it. */
export function withRepeats<Context>(action: Definition<Context>): Definition<Context> {
  const steps = Object.entries(action.steps).map(([name, step]) => [name, repeated(step)] as const)
  return { ...action, steps: Object.fromEntries(steps) }
}

function repeated<Context, Input>(step: Step<Context, Input>): Step<Context, Input> {
  return async (operation, context, tx) => {
    const first = await step(operation, context, tx)
    const again = faultsOf(operation).some(({ what }) => what === 'twice')
    // One that waits comes again anyway.
    return again && !(first && 'wait' in first) ? step(operation, context, tx) : first
  }
}

function isFirst(mark: string): boolean {
  try {
    openSync(mark, 'wx')
    return true
  } catch {
    return false
  }
}
