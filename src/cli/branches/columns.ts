import { Argument } from 'commander'
import type { ApiResponse } from '../../client.ts'
import { span, state, underWay, yes } from '../columns.ts'
import type { ApiBranch } from '../resolve.ts'
import { type Columns, moment } from '../table.ts'
import type { ApiOperation } from '../wait.ts'

/** The columns of a list of branches; parents are shown by name. */
export function columns(branches: readonly ApiBranch[]): Columns<ApiBranch> {
  const names = new Map(branches.map(({ id, name }) => [id, name]))
  return {
    ID: ({ id }) => id,
    NAME: ({ name }) => name,
    PARENT: ({ parent_id }) => parent_id && (names.get(parent_id) ?? parent_id),
    STATE: ({ current_state, pending_state }) => state(current_state, pending_state),
    DEFAULT: (branch) => yes(branch.default),
    PROTECTED: (branch) => yes(branch.protected),
    EXPIRES: ({ expires_at }) => moment(expires_at),
    CREATED: ({ created_at }) => moment(created_at),
  }
}

/** The columns of a list of deleted branches. */
export const DELETED: Columns<ApiBranch> = {
  ID: ({ id }) => id,
  NAME: ({ name }) => name,
  DELETED: ({ recovery }) => moment(recovery?.deleted_at),
  EXPIRED: ({ recovery }) => yes(recovery?.deletion_method === 'ttl'),
  'RECOVERABLE UNTIL': ({ recovery }) => moment(recovery?.recoverable_until),
}

interface Changed {
  readonly branch: ApiBranch
  readonly operations?: readonly ApiOperation[]
  /** Of an anonymized branch: how far that is, or why it failed. */
  readonly anonymized?: Pick<AnonymizedStatus, 'status_message'> | undefined
}

type AnonymizedStatus = ApiResponse<'GET /projects/:project_id/branches/:branch_id/anonymized_status'>

/** The lines that show one branch and its operations. */
export const DETAILS: Columns<Changed> = {
  ID: ({ branch }) => branch.id,
  NAME: ({ branch }) => branch.name,
  PARENT: ({ branch }) => branch.parent_id,
  STATE: ({ branch }) => state(branch.current_state, branch.pending_state),
  ANONYMIZATION: ({ branch, anonymized }) =>
    branch.anonymization_state &&
    [branch.anonymization_state, ...(anonymized?.status_message ? [anonymized.status_message] : [])].join(': '),
  DEFAULT: ({ branch }) => yes(branch.default),
  PROTECTED: ({ branch }) => yes(branch.protected),
  EXPIRES: ({ branch }) => moment(branch.expires_at),
  HISTORY: ({ branch: { history_retention_seconds: kept } }) => (kept === undefined ? undefined : span(kept)),
  CREATED: ({ branch }) => moment(branch.created_at),
  OPERATIONS: ({ operations = [] }) => underWay(operations),
}

/** The lines that show a branch that was just created. */
export const MADE: Columns<ApiResponse<'POST /projects/:project_id/branches'>> = {
  ID: ({ branch }) => branch.id,
  NAME: ({ branch }) => branch.name,
  PARENT: ({ branch }) => branch.parent_id,
  STATE: ({ branch }) => state(branch.current_state, branch.pending_state),
  ENDPOINT: ({ endpoints }) => endpoints[0]?.id,
  CONNECTION: ({ connection_uris }) => connection_uris?.[0]?.connection_uri,
  OPERATIONS: ({ operations }) => underWay(operations),
}

/** A branch that may be left out. */
export const OPTIONAL = new Argument('[branch]', 'its id or name; the default branch unless given')
/** A branch that must be named. */
export const REQUIRED = new Argument('<branch>', 'its id or name')
