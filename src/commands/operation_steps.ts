import { type Operation, type OperationCourse, readCourse } from '../catalog/operation.ts'
import type { Db } from '../catalog/catalog.ts'
import { ACTIONS } from '../operations/index.ts'
import { whyNotCancelled } from './cancel_operation.ts'

/** A step of an operation: done, or with an attempt that failed, or at its turn, or yet to come. */
export interface OperationStep {
  readonly name: string
  readonly status: 'done' | 'failed' | 'current' | 'to_come'
  readonly began_at?: string
  readonly ended_at?: string
  readonly error?: string
}

export interface DescribedOperation extends Pick<OperationCourse, 'request_id' | 'behind'> {
  readonly steps: readonly OperationStep[]
  /** Why it cannot be cancelled; undefined: it can. */
  readonly cancelRefusal: string | undefined
}

/** Reads the steps of an operation: those recorded, the one that it is at, and those that follow in its action. */
export async function describeOperation(db: Db, operation: Operation): Promise<DescribedOperation> {
  const course = await readCourse(db, operation.id)
  if (!course) return { steps: [], request_id: null, behind: [], cancelRefusal: 'The operation is gone.' }
  return {
    steps: stepsOf(operation, course),
    request_id: course.request_id,
    behind: course.behind,
    cancelRefusal: whyNotCancelled(operation.action, operation.status, course.is_of_move),
  }
}

/** The steps in order. Each recorded one began when the one before had ended. */
export function stepsOf(
  { action, status, started_at, finished_at }: Pick<Operation, 'action' | 'status' | 'started_at' | 'finished_at'>,
  { step: current, steps }: Pick<OperationCourse, 'step' | 'steps'>,
): OperationStep[] {
  const recorded = steps.map(({ step: name, at, error }, index): OperationStep => {
    const began = index === 0 ? started_at : steps[index - 1]?.at
    const ended = { name, status: error === undefined ? 'done' : 'failed', ended_at: at } as const
    return { ...ended, ...(began && { began_at: began }), ...(error !== undefined && { error }) }
  })
  if (finished_at !== null) return recorded
  const began = steps.at(-1)?.at ?? started_at
  const isRunning = status === 'running'
  const now: OperationStep = {
    name: current,
    status: isRunning ? 'current' : 'to_come',
    ...(isRunning && began && { began_at: began }),
  }
  const names = Object.keys(ACTIONS.find((each) => each.action === action)?.steps ?? {})
  const rest = names.includes(current) ? names.slice(names.indexOf(current) + 1) : []
  return [...recorded, now, ...rest.map((name) => ({ name, status: 'to_come' }) as const)]
}
