/** Code in a compute that tries to connect to the outside, and the addresses it reached. */
import { readFileSync, writeFileSync } from 'node:fs'
import { superuser } from '../../admin.ts'
import type { Neap } from '../../neap.ts'
import type { Place } from '../../project.ts'
import { PORT } from './places.ts'

export interface Shell {
  /** Returns the stdout and stderr of a script. */
  run(script: string): Promise<string>
  connect(addresses: readonly string[]): Promise<unknown>
  /** Over TCP, by sockets bound to the egress device. */
  connectByDevice(addresses: readonly string[]): Promise<unknown>
  /** Over UDP. Each datagram selects the device by its index, and carries its target as text. */
  sendByDevice(addresses: readonly string[]): Promise<unknown>
  end(): Promise<void>
}

const BY_DEVICE = `use Socket;
  for (@ARGV) {
    socket(my $s, AF_INET, SOCK_STREAM, 0) or die;
    setsockopt($s, SOL_SOCKET, 25, "out\\0") or print "bind: $!\\n";
    local $SIG{ALRM} = sub { die "late\\n" };
    alarm 2;
    eval { connect($s, sockaddr_in(${PORT}, inet_aton($_))) ? sysread($s, my $answer, 9) : print "$_: $!\\n" };
    alarm 0;
  }`
/** IP_UNICAST_IF has the effect of IP_PKTINFO on a single datagram, without sendmsg. */
const BY_DEVICE_UDP = `use Socket;
  for (@ARGV) {
    my $answered = '';
    my @sockets;
    for my $index (1 .. 4) {
      socket(my $s, AF_INET, SOCK_DGRAM, 0) or die;
      setsockopt($s, 0, 50, pack('N', $index));
      send($s, $_, 0, sockaddr_in(${PORT}, inet_aton($_))) or print "$_: $!\\n";
      vec($answered, fileno $s, 1) = 1;
      push @sockets, $s;
    }
    select $answered, undef, undef, 0.3;
  }`

/** A shell in the running compute of an endpoint, run by its superuser. */
export async function openShell(neap: Neap, place: Place): Promise<Shell> {
  const client = await superuser(neap, place)
  await client.query('set statement_timeout = 60000; create temp table said (line text)')
  const run = async (script: string): Promise<string> => {
    await client.query('truncate said')
    const encoded = Buffer.from(script).toString('base64')
    await client.query(
      `copy said from program 'echo ${encoded} | base64 -d | { bash 2>&1 || true; } | tr ''\\\\\\\\\\t'' ''//'''`,
    )
    return (await client.query<{ line: string }>('select line from said')).rows.map(({ line }) => line).join('\n')
  }
  const perl = (program: string, addresses: readonly string[]) =>
    run(`perl -e "$(echo ${Buffer.from(program).toString('base64')} | base64 -d)" ${addresses.join(' ')}`)
  return {
    run,
    connect: (addresses) =>
      run(addresses.map((address) => `timeout 3 bash -c 'exec 3<>/dev/tcp/${address}/${PORT} && cat <&3'`).join('\n')),
    connectByDevice: (addresses) => perl(BY_DEVICE, addresses),
    sendByDevice: (addresses) => perl(BY_DEVICE_UDP, addresses),
    end: () => client.end(),
  }
}

/** The addresses beyond this machine that `attempt` reached, without duplicates, in order. */
export async function reached(attempt: () => Promise<unknown>): Promise<string[]> {
  const hits = process.env['NEAP_TEST_HITS'] ?? ''
  writeFileSync(hits, '')
  await attempt()
  return [...new Set(readFileSync(hits, 'utf8').split('\n').filter(Boolean))]
}

/** Sets whether the computes of a project have egress, and returns the project once the change is applied. */
export async function enableEgress(neap: Neap, { project_id }: Place, enable_egress: boolean) {
  const body = { project: { settings: { enable_egress } } }
  const { operations, project } = await neap.call('PATCH /projects/:project_id', { params: { project_id }, body })
  await neap.ended(operations)
  return project
}
