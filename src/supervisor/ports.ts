import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import { UsageError } from '../errors.ts'

const LOOPBACK = ['127.0.0.1']

/** A port number and its origin, which decides whether a taken one is an error. */
export interface WantedPort {
  readonly name: string
  readonly flag: string
  readonly port: number
  /** Set on the command line or in the environment: then a taken one is an error. */
  readonly asked: boolean
  /** The addresses where it must be free; loopback when absent. */
  readonly addresses?: readonly string[]
}

/** Whether the port is free at each of the addresses. Errors: UsageError (an address cannot be listened on at all). */
async function isFree(port: number, addresses: readonly string[]): Promise<boolean> {
  for (const address of addresses) if (!(await isFreeAt(port, address))) return false
  return true
}

function isFreeAt(port: number, host: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(false)
      else reject(new UsageError(`Port ${port} of ${host} cannot be used: ${WHY[error.code ?? ''] ?? error.message}.`))
    })
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(true)))
  })
}

const WHY: Readonly<Record<string, string>> = {
  EACCES: 'ports below 1024 need root; choose a higher one',
  EADDRNOTAVAIL: 'this machine has no such address; name another in --listen',
}

/** Below the ephemeral ports of systems: an outgoing connection could take one of those before it is listened on. */
const [LOWEST_PICKED, HIGHEST_PICKED] = [20_000, 32_767] as const

/**
 * Chooses a port; 0 means any. A taken one that was set explicitly is an error; a stored or default one is replaced by
 * the next free one, which `say` reports.
 */
export async function choosePort(
  wanted: WantedPort,
  taken: readonly number[],
  say: (line: string) => void,
): Promise<number> {
  const picked = wanted.port === 0
  for (let port = picked ? randomInt(LOWEST_PICKED, HIGHEST_PICKED) : wanted.port; port <= 65_535; port++) {
    if (taken.includes(port)) continue
    if (await isFree(port, wanted.addresses ?? LOOPBACK)) {
      if (!picked && port !== wanted.port) say(`Port ${wanted.port} is taken, so ${wanted.name} uses ${port}.`)
      return port
    }
    if (wanted.asked && !picked)
      throw new UsageError(
        `Port ${port} is taken. Choose another for ${wanted.name} with ${wanted.flag}, or 0 for any free one.`,
      )
  }
  throw new UsageError(`No free port at or above ${wanted.port} for ${wanted.name}. Choose one with ${wanted.flag}.`)
}
