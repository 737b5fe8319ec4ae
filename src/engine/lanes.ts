/*
 * The places of a worker for operations, by lane.
 *
 *   claimed ──▶ running ──waits for a promise──▶ parked ──settled──▶ resumed ──a place is free──▶ running
 *                  └──▶ ended, or due again later
 *
 * A parked operation has no transaction and, except in the lane of copies, no place: a copy keeps its place until it
 * has ended, so that their number is limited.
 */
import type { Due, Vacancy } from './claim.ts'
import type { LaneName } from './definition.ts'

export interface OperationLane {
  has(action: string): boolean
  /** The places that operations may be claimed for; undefined when all are taken. */
  vacancy(): Vacancy | undefined
  /** The ids of operations that the worker drives in this lane. */
  driven(): string[]
  begin(operation: Due): void
  /** Frees the operation's place, unless it was parked. */
  leave(operation: Due): void
  park(operation: Due): void
  /** Its promise has settled. */
  settle(operation: Due): void
  /** The next settled operation for which there is a place. */
  resume(): Due | undefined
}

export interface LaneOptions {
  readonly name: LaneName
  readonly actions: readonly string[]
  readonly places: number
}

/** Of this many places of a lane, one is kept from a project that has the others. */
const RESERVED_OF = 8
/** The lane of copies has this many times its places, most of them for projects without a copy. */
const OF_PROJECTS = 3
/** This many times with those for accounts without a copy: an account may have many projects. */
const OF_ALL = 4

export function createLane({ name, actions, places }: LaneOptions): OperationLane {
  const running = new Map<string, Due>()
  const parked = new Map<string, Due>()
  const resumed: Due[] = []
  const copies = name === 'copy'
  const share = copies ? Math.ceil(places / 2) : places - Math.floor(places / RESERVED_OF)

  const placed = (): Due[] => (copies ? [...running.values(), ...parked.values()] : [...running.values()])

  return {
    has: (action) => actions.includes(action),
    vacancy() {
      const has = placed()
      const busy = has.map(({ project_id }) => project_id)
      if (has.length < places) return { actions, most: places - has.length, busy, share }
      const most = places * OF_PROJECTS - has.length
      if (!copies || has.length >= places * OF_ALL) return undefined
      if (most > 0) return { actions, most, busy, share: 1 }
      return { actions, most: 1, busy, share: 1, left_out: has.map(({ account_id }) => account_id) }
    },
    driven: () => [...running.keys(), ...parked.keys()],
    begin(operation) {
      parked.delete(operation.id)
      running.set(operation.id, operation)
    },
    leave: ({ id }) => void running.delete(id),
    park(operation) {
      running.delete(operation.id)
      parked.set(operation.id, operation)
    },
    settle: (operation) => void resumed.push(operation),
    resume: () => (copies || running.size < places ? resumed.shift() : undefined),
  }
}
