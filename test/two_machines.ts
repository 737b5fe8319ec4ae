import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Ran, run } from './neap.ts'

/* Two network namespaces connected by a veth pair, as two machines, each with its own hosts file. */

export interface Machines {
  /** The address of the machine that runs Neap. */
  readonly server: string
  readonly serverIpv6: string
  /** The addresses of the clients' machine. It connects from the first by default. */
  readonly clients: readonly [string, string]
  /** A command prefix that runs a command on that machine. */
  readonly onServer: readonly string[]
  readonly onClient: readonly string[]
  /** Adds names for the server on both machines. */
  name(names: readonly string[]): void
  /** Runs a program on the clients' machine to its end. */
  run(program: string, args: readonly string[], env?: NodeJS.ProcessEnv): Promise<Ran>
  remove(): void
}

const ip = (...args: string[]): Buffer => execFileSync('ip', args)

/** Creates both. Needs root and iproute2. */
export function twoMachines(): Machines {
  const id = process.pid % 100_000
  const [server, client] = [`neap-${id}-s`, `neap-${id}-c`]
  const [cable, end] = [`neap${id}s`, `neap${id}c`]
  // Networks reserved for documentation (RFC 5737, RFC 3849), unused elsewhere.
  const [address, ...clients] = ['198.51.100.1', '198.51.100.2', '198.51.100.3'] as const
  for (const name of [server, client]) {
    ip('netns', 'add', name)
    ip('-n', name, 'link', 'set', 'lo', 'up')
  }
  ip('link', 'add', cable, 'netns', server, 'type', 'veth', 'peer', 'name', end, 'netns', client)
  ip('-n', server, 'address', 'add', `${address}/24`, 'dev', cable)
  const [address6, client6] = ['2001:db8::1', '2001:db8::2'] as const
  ip('-n', server, 'address', 'add', `${address6}/64`, 'dev', cable, 'nodad')
  ip('-n', client, 'address', 'add', `${client6}/64`, 'dev', end, 'nodad')
  for (const each of clients) ip('-n', client, 'address', 'add', `${each}/24`, 'dev', end)
  ip('-n', server, 'link', 'set', cable, 'up')
  ip('-n', client, 'link', 'set', end, 'up')
  const etc = [server, client].map((name) => join('/etc/netns', name))
  const onClient = ['ip', 'netns', 'exec', client]
  const machines: Machines = {
    server: address,
    serverIpv6: address6,
    clients,
    onServer: ['ip', 'netns', 'exec', server],
    onClient,
    name(names) {
      // `ip netns exec` mounts this file over /etc/hosts.
      for (const directory of etc) {
        mkdirSync(directory, { recursive: true })
        writeFileSync(join(directory, 'hosts'), `127.0.0.1 localhost\n${address} ${names.join(' ')}\n`)
      }
    },
    run: (program, args, env) => run('ip', [...onClient.slice(1), program, ...args], env),
    remove() {
      for (const name of [server, client]) ip('netns', 'delete', name)
      for (const directory of etc) rmSync(directory, { recursive: true, force: true })
    },
  }
  machines.name([])
  return machines
}
