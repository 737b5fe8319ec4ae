import assert from 'node:assert/strict'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { awaitOperations, type Operation } from '../../src/catalog/operation.ts'
import type { Definition, Step } from '../../src/engine/definition.ts'
import { type Runner, type RunnerOptions, startRunner } from '../../src/engine/runner.ts'
import { HOST, type OperationRow, read } from './operations.ts'

type Steps = Readonly<Record<string, Step<unknown, unknown>>>
const NEVER_MS = 3_600_000
export const nothing: Step<unknown, unknown> = async () => {}

/** The definition of `toil` with these steps; the first must be called `begun`. */
export const toil = (steps: Steps, onFailure = nothing): Definition<unknown, unknown> => ({
  action: 'toil',
  deadlineSeconds: 60,
  steps,
  onFailure,
})

/** A runner that never sweeps: it finds operations only through notifications. */
export function run(
  catalog: Catalog,
  definition: Definition<unknown, unknown>,
  options: Partial<RunnerOptions<unknown>> = {},
) {
  return startRunner<unknown>({
    catalog,
    definitions: [definition],
    context: undefined,
    host: HOST,
    concurrency: 16,
    sweepMs: NEVER_MS,
    isTakenOver: () => false,
    onError: () => {},
    ...options,
  })
}

/** Waits until they have ended, and returns their rows; fails if they have not within a minute. */
export async function ended(catalog: Catalog, ...operations: Operation[]): Promise<OperationRow[]> {
  const ids = operations.map(({ id }) => id)
  for (const { finished_at, id } of await awaitOperations(catalog, ids, 60_000)) assert.ok(finished_at, id)
  return Promise.all(ids.map((id) => read(catalog, id)))
}

/** Stops the runners after `work`, also when it fails. */
export async function during(runners: Promise<Runner>[], work: () => Promise<void>): Promise<void> {
  const started = await Promise.all(runners)
  try {
    await work()
  } finally {
    await Promise.all(started.map((runner) => runner.stop()))
  }
}
