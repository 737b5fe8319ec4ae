/*
 * Runs a test file in simulated networks: network namespaces for a machine and for the hosts beyond it, created by root
 * and removed with their processes. `world.ts root|ordinary whole|without-pasta FILE`, called in new network and mount
 * namespaces.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { isIPv6 } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { testAsOrdinaryUser, testHere } from '../../ordinary_user.ts'
import { CLOSED, MACHINE, MACHINE_V6, NAMED, NAMES, PUBLIC } from './places.ts'

const [user, means, file = ''] = process.argv.slice(2)
const sh = (script: string) => execFileSync('sh', ['-ec', script], { stdio: ['ignore', 'inherit', 'inherit'] })
const scratch = mkdtempSync(join(tmpdir(), 'neap-world-'))
const hits = join(scratch, 'hits')
writeFileSync(hits, '')
chmodSync(scratch, 0o755)
chmodSync(hits, 0o666)

const outside = await startOutside()
linkTo(outside.pid as number)
const resolver = await startResolver()
prepareMachine()
process.env['NEAP_TEST_HITS'] = hits
try {
  await (user === 'root' ? testHere([file]) : testAsOrdinaryUser([file], undefined, { NEAP_TEST_HITS: hits }))
} catch (error) {
  process.stdout.write(`${(error as Error).message}\n`)
  process.exitCode = 1
} finally {
  resolver.close()
  outside.stdin?.end()
  await once(outside, 'exit')
  rmSync(scratch, { recursive: true })
}

async function startOutside(): Promise<ChildProcess> {
  const program = fileURLToPath(new URL('outside.ts', import.meta.url))
  const child = spawn('unshare', ['--net', process.execPath, program, hits], { stdio: ['pipe', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  return child
}

function linkTo(pid: number): void {
  const far = `nsenter -t ${pid} -n`
  const at = ({ address, prefix }: { address: string; prefix: number }) => `${address}/${prefix}`
  sh(`ip link set lo up
    ip link add eth0 type veth peer name far netns ${pid}
    ${far} sh -c 'echo 0 > /proc/sys/net/ipv6/conf/far/accept_dad'
    echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad
    ip addr add ${at(MACHINE)} dev eth0; ip addr add ${at(MACHINE_V6)} dev eth0 nodad; ip link set eth0 up
    ${far} ip link set lo up
    ${far} ip addr add ${MACHINE.gateway}/${MACHINE.prefix} dev far
    ${far} ip addr add ${MACHINE_V6.gateway}/${MACHINE_V6.prefix} dev far nodad
    ${far} ip link set far up
    ip route add default via ${MACHINE.gateway}; ip -6 route add default via ${MACHINE_V6.gateway}`)
  for (const address of [...PUBLIC, ...NAMED, ...CLOSED]) {
    // An address in the machine's own network is on-link.
    const onLink = address.startsWith('2a00:2:')
    sh(
      `${far} ip addr add ${address}/${isIPv6(address) ? '128' : '32'} ` +
        `dev ${onLink ? 'far' : 'lo'} ${isIPv6(address) ? 'nodad' : ''}`,
    )
  }
}

/**
 * A tun device for root or for all users, a resolver on the loopback like systemd-resolved, and pasta unless it is
 * hidden.
 */
function prepareMachine(): void {
  const resolv = join(scratch, 'resolv.conf')
  writeFileSync(resolv, 'nameserver 127.0.0.53\n')
  const mode = user === 'root' ? '600' : '666'
  sh(`mount -t tmpfs -o mode=755 tmpfs /dev/net; mknod -m ${mode} /dev/net/tun c 10 200
    mount --bind ${resolv} /etc/resolv.conf`)
  if (means === 'without-pasta') sh('mount --bind /dev/null "$(command -v pasta)"')
}

async function startResolver() {
  const server = createSocket('udp4', (query, { port, address }) => server.send(answer(query), port, address))
  server.bind(53, '127.0.0.53')
  await once(server, 'listening')
  return server
}

/** The answer to an address query (RFC 1035): one record or no record. */
function answer(query: Buffer): Buffer {
  const labels: string[] = []
  let at = 12
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const address = query.readUInt16BE(at + 1) === 1 ? NAMES[labels.join('.')] : undefined
  const head = Buffer.from(query.subarray(0, 12))
  head.writeUInt16BE(address ? 0x8180 : 0x8183, 2)
  head.writeUInt16BE(address ? 1 : 0, 6)
  head.writeUInt32BE(0, 8)
  const record = [0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, ...(address ?? '').split('.').map(Number)]
  return Buffer.concat([head, query.subarray(12, at + 5), ...(address ? [Buffer.from(record)] : [])])
}
