import { createServer } from 'node:net'
import { UsageError } from '../errors.ts'

/** Where a port number came from decides what happens when it is taken. */
export interface WantedPort {
  readonly name: string
  readonly flag: string
  readonly port: number
  /** Asked for on the command line or in the environment: then a taken one is an error. */
  readonly asked: boolean
}

/** Whether the loopback port is free; 0 picks any free one. Answers the port, or nothing. */
function tryPort(port: number): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(undefined)
      else
        reject(
          new UsageError(
            `Port ${port} cannot be used: ${error.code === 'EACCES' ? 'ports below 1024 need root; choose a higher one' : error.message}.`,
          ),
        )
    })
    server.listen({ host: '127.0.0.1', port, exclusive: true }, () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : undefined))
    })
  })
}

/**
 * Chooses a port. A taken one that somebody asked for is an error; a stored or default one gives way to the next free one,
 * of which `say` is told.
 */
export async function choosePort(
  wanted: WantedPort,
  taken: readonly number[],
  say: (line: string) => void,
): Promise<number> {
  for (let port = wanted.port; port <= 65_535; port++) {
    if (port !== 0 && taken.includes(port)) continue
    const found = await tryPort(port)
    if (found !== undefined) {
      if (wanted.port !== 0 && found !== wanted.port)
        say(`Port ${wanted.port} is taken, so ${wanted.name} uses ${found}.`)
      return found
    }
    if (wanted.asked)
      throw new UsageError(
        `Port ${port} is taken. Choose another for ${wanted.name} with ${wanted.flag}, or 0 for any free one.`,
      )
  }
  throw new UsageError(`No free port at or above ${wanted.port} for ${wanted.name}. Choose one with ${wanted.flag}.`)
}
