/** A real SSH server with SFTP, on loopback, for the user who runs it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { run } from '../neap.ts'
import { freePorts } from '../free_ports.ts'
import { kill, until } from '../processes.ts'

export interface Sftp {
  /** With a path below it. */
  readonly url: string
  /** The private key of its user. */
  readonly keyFile: string
  /** As ssh-keygen prints it. */
  readonly fingerprint: string
  stop(): Promise<void>
}

export const SSHD = '/usr/sbin/sshd'

/** Starts it with its files in `directory`. */
export async function startSftp(directory: string): Promise<Sftp> {
  mkdirSync(directory, { recursive: true })
  const [hostKey, keyFile, config] = ['host_key', 'user_key', 'sshd_config'].map((name) => join(directory, name)) as [
    string,
    string,
    string,
  ]
  for (const key of [hostKey, keyFile]) await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key])
  const [port = 0] = await freePorts(1)
  const settings = {
    ListenAddress: '127.0.0.1',
    Port: String(port),
    HostKey: hostKey,
    AuthorizedKeysFile: `${keyFile}.pub`,
    PidFile: 'none',
    StrictModes: 'no',
    UsePAM: 'no',
    PermitRootLogin: 'prohibit-password',
    PasswordAuthentication: 'no',
    Subsystem: 'sftp internal-sftp',
  }
  writeFileSync(
    config,
    Object.entries(settings)
      .map(([name, value]) => `${name} ${value}\n`)
      .join(''),
  )
  if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true })
  const server = spawn(SSHD, ['-D', '-e', '-f', config], { stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  server.stderr.setEncoding('utf8').on('data', (text: string) => (said += text))
  const ended = once(server, 'exit')
  await until('the SSH server listens', () => {
    if (server.exitCode !== null) throw new Error(`the SSH server ended: ${said}`)
    return said.includes('Server listening')
  })
  const { stdout } = await run('ssh-keygen', ['-lf', `${hostKey}.pub`])
  return {
    url: `sftp://${userInfo().username}@127.0.0.1:${port}`,
    keyFile,
    fingerprint: /SHA256:\S+/.exec(stdout)?.[0] ?? readFileSync(`${hostKey}.pub`, 'utf8'),
    async stop() {
      if (server.pid !== undefined) await kill(server.pid)
      await ended
    },
  }
}
