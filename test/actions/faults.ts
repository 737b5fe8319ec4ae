import { existsSync, openSync, watch } from 'node:fs'
import { join } from 'node:path'
import { findStoredBranch, type StoredBranch } from '../../src/catalog/branch.ts'
import type { WorkerContext } from '../../src/context.ts'
import type { Due } from '../../src/engine/claim.ts'
import { type Definition, OperationFailed, type Step } from '../../src/engine/definition.ts'
import type { Moment } from '../../src/engine/runner.ts'

/**
 * A fault to inject into one operation. It is part of the operation's input, so that every worker that runs it knows
 * it.
 */
export interface Fault {
  /**
   * `die`: the worker kills itself. `crash`: it kills the catalog's server. `throw`: a temporary error. `fail`: a
   * permanent one. `twice`: the step runs twice.
   */
  readonly what: 'die' | 'crash' | 'throw' | 'fail' | 'twice'
  readonly step: string
  /** `during`: at the first change in the branches' directories. */
  readonly moment: Moment | 'during'
  /** A file that the fault creates when it strikes, so that it strikes once. */
  readonly mark: string
  readonly catalogPid?: number
}

const faultsOf = ({ input }: { readonly input: unknown }) => (input as { faults?: Fault[] }).faults ?? []
const die = () => process.kill(process.pid, 'SIGKILL')

/** Called by the worker at each moment of a step. */
export async function strike(operation: Due, moment: Moment): Promise<void> {
  for (const fault of faultsOf(operation)) {
    if (fault.step !== operation.step || fault.moment !== moment || !isFirst(fault.mark)) continue
    if (fault.what === 'throw') throw new Error(`an error ${moment} ${fault.step}`)
    if (fault.what === 'fail') throw new OperationFailed(`a failure ${moment} ${fault.step}`)
    if (fault.what === 'crash' && fault.catalogPid) process.kill(fault.catalogPid, 'SIGKILL')
    if (fault.what === 'die') die()
  }
}

type Action = Definition<WorkerContext>

/**
 * Wraps the steps of an action so that each runs twice in a row, or has its worker killed, when the operation's faults
 * say so.
 */
export function withFaults(action: Action): Action {
  const steps = Object.entries(action.steps).map(([name, step]) => [name, faulty(step)] as const)
  return { ...action, steps: Object.fromEntries(steps) }
}

function faulty<Input>(step: Step<WorkerContext, Input>): Step<WorkerContext, Input> {
  return async (operation, context, tx) => {
    const faults = faultsOf(operation)
    for (const fault of faults)
      if (fault.step === operation.step && fault.moment === 'during')
        dieAtChange(await findStoredBranch(tx, operation.branch_id ?? ''), context, fault)
    const first = await step(operation, context, tx)
    const again = faults.some(({ what }) => what === 'twice')
    // A waiting step is repeated anyway.
    return again && !(first && 'wait' in first) ? step(operation, context, tx) : first
  }
}

function dieAtChange(branch: StoredBranch | undefined, { config }: WorkerContext, { mark }: Fault): void {
  if (!isFirst(mark)) return
  const branches = join(config.dataDir, 'branches')
  const places = branch ? [branches, join(branches, branch.store_id)] : [branches]
  for (const place of places) if (existsSync(place)) watch(place, die)
}

function isFirst(mark: string): boolean {
  try {
    openSync(mark, 'wx')
    return true
  } catch {
    return false
  }
}
