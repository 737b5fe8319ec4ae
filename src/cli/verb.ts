import { Command, Option } from 'commander'
import type { ApiClient } from '../client.ts'
import { UsageError } from '../errors.ts'
import { type Access, apiClient } from './connect.ts'
import { print } from './print.ts'
import { branchId, endpointId, projectId } from './resolve.ts'
import { isEnded, type ApiOperation, problemOf, waitFor } from './wait.ts'
import { wholeNumber } from './values.ts'

const WAIT_SECONDS = 300
const BY_FLAG = 'Say which project with --project <id or name>'

interface SharedFlags extends Access {
  readonly json?: boolean
  readonly project?: string
  readonly branch?: string
  readonly wait?: boolean
  readonly timeout?: number
  readonly quiet?: boolean
  readonly yes?: boolean
}

/** The context of a verb: a client of the API that its flags name, the flags, and lookups by them. */
export interface VerbSession<Flags> {
  readonly call: ApiClient
  readonly flags: Flags & SharedFlags
  /** The project of `--project`, or the one in the arguments, or the only one. */
  readonly project: (asked?: {
    readonly named: string | undefined
    readonly how: string
  }) => Promise<{ project_id: string }>
  /** The branch of this name or id, that of `--branch`, or the default branch of the project. */
  readonly branch: (asked?: string) => Promise<{ project_id: string; branch_id: string }>
  /** The endpoint of this name, id or branch, or that of the default branch of the project. */
  readonly endpoint: (asked?: string) => Promise<{ project_id: string; endpoint_id: string }>
}

/** The result of a verb. */
export interface VerbOutcome<A> {
  /** The API's answer: what `--json` prints. */
  readonly answer: A
  /** The same as text. */
  readonly text: (answer: A) => string
  /** Reads again the objects that the answer's operations change, once these have ended. */
  readonly refresh?: () => Promise<Partial<A>>
  /** Waits even without `--wait`. */
  readonly waits?: boolean
}

/** The action of a command: calls the API, waits if requested, and prints. Errors: those of the API; UsageError. */
export function verb<A extends object, Flags>(
  run: (session: VerbSession<Flags>, ...args: never[]) => Promise<VerbOutcome<A>>,
) {
  return async function act(this: Command, ...given: unknown[]): Promise<void> {
    const flags = this.optsWithGlobals<Flags & SharedFlags>()
    if (!flags.apiUrl && this.getOptionValueSourceWithGlobals('apiKey') === 'cli')
      throw new UsageError(
        '--api-key needs --api-url: without it the Neap on this machine is asked, which needs no key.',
      )
    const call = apiClient(flags)
    const project: VerbSession<Flags>['project'] = async (asked = { named: flags.project, how: BY_FLAG }) => ({
      project_id: await projectId(call, asked.named, asked.how),
    })
    const branch = async (asked = flags.branch) => {
      const found = await project()
      return { ...found, branch_id: await branchId(call, found.project_id, asked) }
    }
    const endpoint = async (asked?: string) => {
      const found = await project()
      return { ...found, endpoint_id: await endpointId(call, found.project_id, asked) }
    }
    const args = given.slice(0, this.registeredArguments.length) as never[]
    const outcome = await run({ call, flags, project, branch, endpoint }, ...args)
    const waiting = flags.wait ?? outcome.waits
    const answer = waiting ? await waited(call, outcome, flags) : outcome.answer
    print(flags.json ? JSON.stringify(answer) : outcome.text(answer))
    const problem = waiting && problemOf(operationsIn(answer))
    if (problem) throw new UsageError(problem)
  }
}

async function waited<A extends object>(
  call: ApiClient,
  outcome: VerbOutcome<A>,
  { timeout: seconds = WAIT_SECONDS, quiet: isQuiet = false, json = false }: SharedFlags,
): Promise<A> {
  const { answer, refresh } = outcome
  const operations = await waitFor(call, operationsIn(answer), { seconds, isQuiet: isQuiet || json })
  return { ...answer, ...(operations.every(isEnded) && (await refresh?.())), operations }
}

function operationsIn(answer: object): readonly ApiOperation[] {
  return (answer as { readonly operations?: readonly ApiOperation[] }).operations ?? []
}

/** Adds the options to wait for the operations in a command's answer. */
export function waits(command: Command): Command {
  return command
    .option('--wait', 'wait until its operations have ended; fail if one of them does')
    .addOption(timeout().implies({ wait: true }))
    .addOption(quiet())
}

/** The option that limits the wait for operations. */
export function timeout(): Option {
  return new Option('--timeout <seconds>', `wait no longer than this (${WAIT_SECONDS} unless given)`).argParser(
    wholeNumber(1, 86_400),
  )
}

/** The option that waits without a word of progress. */
export const quiet = (): Option => new Option('-q, --quiet', 'show no progress while waiting')

/** `neap <noun> …`: the options for the API and the output belong to the noun, for all of its verbs. */
export function noun(name: string, about: string, options: readonly Option[], verbs: readonly Command[]): Command {
  const command = reaches(new Command(name).description(about), options)
  for (const each of verbs) command.addCommand(each)
  return command
}

/** Adds the options that select the API and the output to a command. */
export function reaches(command: Command, options: readonly Option[]): Command {
  for (const option of options) command.addOption(option)
  return command.option('--json', "print the API's answer as one line of JSON")
}

export const PROJECT = new Option('-p, --project <project>', 'its id or name; may be left out where there is only one')
export const BRANCH = new Option('-b, --branch <branch>', 'its id or name; the default branch unless given')
