import { BEFORE_ALL, isPast, type TransactionSnapshot } from '../../catalog/operation_event.ts'
import { AppError } from '../../errors.ts'
import { EventStream, type RequestContext, route } from '../route.ts'
import { ProjectParams } from '../path_params.ts'
import { requireProjectEver } from './operations.ts'

/** Retention of events: a client that was away for longer has missed some. */
const KEPT_SECONDS = 7 * 86_400

export const streamOperations = route('GET /projects/:project_id/operations/stream', {
  summary: 'Follow the operations of a project: one server-sent event for each change',
  tag: 'Operation',
  params: ProjectParams,
  returns: EventStream,
  errors: ['NOT_FOUND'],
}).handle(async ({ params, headers }, context) => {
  await requireProjectEver(context, params.project_id)
  const last = headers['last-event-id']
  const { seen, missed } = last === undefined ? FROM_NOW : await readPlace(context, String(last))
  return follow(context, await context.feeds.join(params.project_id, seen, context.gone), missed)
})

interface Place {
  /** Undefined: the start of the stream. */
  readonly seen: TransactionSnapshot | undefined
  /** Whether events after `seen` may have been deleted. */
  readonly missed: boolean
}

const FROM_NOW: Place = { seen: undefined, missed: false }

/**
 * Parses an event id: the time of sending, and the catalog snapshot then. 0 stands for all kept events. Errors:
 * INVALID_REQUEST.
 */
async function readPlace({ db }: RequestContext, text: string): Promise<Place> {
  if (text === '0') return { seen: BEFORE_ALL, missed: false }
  const [, seconds, seen] = /^(\d{1,11})-(\d{1,19}:\d{1,19}:(?:\d{1,19}(?:,\d{1,19})*)?)$/.exec(text) ?? []
  if (seconds === undefined || seen === undefined)
    throw new AppError('INVALID_REQUEST', 'Last-Event-ID is not one of ours: send the id of the last event as it came.')
  if (!(await isPast(db, seen))) return { seen: undefined, missed: true }
  return { seen, missed: Number(seconds) < Math.floor(Date.now() / 1000) - KEPT_SECONDS }
}

/**
 * Yields each change of an operation once it is committed, while the key is valid. If events may be missing, a `reset`
 * comes first: the client then lists the operations once.
 */
async function* follow(
  { stillIn }: RequestContext,
  events: AsyncGenerator<string>,
  missed: boolean,
): AsyncGenerator<string> {
  yield missed ? 'event: reset\ndata: {}\n\n' : ': operations\n\n'
  for await (const text of events) {
    if (!(await stillIn())) return
    yield text
  }
}
