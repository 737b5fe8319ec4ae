import type { Operation } from '../../api.ts'

/** Actions in words; one that this page does not know is shown as it is. */
export const ACTIONS: Readonly<Record<string, string>> = {
  create_timeline: 'Make a project’s first branch',
  create_branch: 'Make a branch',
  start_compute: 'Start a compute',
  suspend_compute: 'Suspend a compute',
  apply_config: 'Apply settings',
  check_availability: 'Check availability',
  delete_timeline: 'Remove a branch’s data',
  timeline_archive: 'Archive an unused branch',
  timeline_unarchive: 'Bring an archived branch back',
  delete_tenant: 'Remove a project’s data',
}

const REASONS: Readonly<Record<string, string>> = {
  request: 'asked for by a request',
  connection: 'a client connected',
  idle: 'no client used it',
  shutdown: 'Neap was stopped',
  move: 'it moved to another branch',
  delete: 'it was deleted',
  restore: 'its branch was restored',
  crash: 'it had ended by itself',
}

/** Why an operation was asked for, in words. */
export const reasonWords = (reason: string): string => REASONS[reason] ?? reason

/** A name such as `compute_answers` as words. */
export const stepWords = (name: string): string =>
  name === 'failure' ? 'undo what was begun' : name.replaceAll('_', ' ')

/** Why an operation cannot be cancelled, as far as its list tells; undefined: the API may allow it. */
export function whyNotCancelled({ status, action }: Operation): string | undefined {
  if (status === 'running') return 'It has begun: only an operation that has not can be cancelled.'
  if (status !== 'scheduling') return 'It has ended.'
  return action.startsWith('delete_') ? 'What it removes is deleted already.' : undefined
}
