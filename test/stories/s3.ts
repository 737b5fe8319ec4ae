/** A real S3 server, on loopback and by TLS. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { peer } from '../clients/peers.ts'
import { freePorts } from '../free_ports.ts'
import { run } from '../neap.ts'
import { kill, until } from '../processes.ts'

export interface S3 {
  readonly endpoint: string
  readonly bucket: string
  readonly caFile: string
  /** The variables that name its key. */
  readonly env: Readonly<Record<'AWS_ACCESS_KEY_ID' | 'AWS_SECRET_ACCESS_KEY', string>>
  stop(): Promise<void>
}

const BUCKET = 'neap'
const KEY = { accessKey: 'AKNEAPTEST', secretKey: 'a-secret-of-the-test' }

/** Starts it with an empty bucket and its files below `directory`. */
export async function startS3(directory: string): Promise<S3> {
  const data = join(directory, 'data')
  mkdirSync(data, { recursive: true })
  const [caFile, keyFile, config] = [join(directory, 's3.crt'), join(directory, 's3.key'), join(directory, 's3.json')]
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost']
  await run('openssl', [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-keyout',
    keyFile,
    '-out',
    caFile,
    ...subject,
  ])
  const identity = { name: 'neap', credentials: [KEY], actions: ['Admin', 'Read', 'List', 'Write'] }
  writeFileSync(config, JSON.stringify({ identities: [identity] }))
  const [port = 0, ...ports] = await freePorts(8)
  const names = ['s3.port.grpc', 'master.port', 'master.port.grpc', 'volume.port', 'volume.port.grpc']
  const all = [...names, 'filer.port', 'filer.port.grpc'].map((name, index) => `-${name}=${ports[index]}`)
  const loopback = ['-ip=127.0.0.1', '-ip.bind=127.0.0.1', '-s3.ip.bind=127.0.0.1', `-dir=${data}`]
  const tls = [`-s3.cert.file=${caFile}`, `-s3.key.file=${keyFile}`, `-s3.config=${config}`]
  const off = [
    '-s3.iam=false',
    '-s3.port.iceberg=0',
    '-s3.port.lance=0',
    '-master.volumeSizeLimitMB=64',
    // It may give all but one of eight, which it makes by default, to files that are not in the bucket.
    '-volume.max=100',
    '-metricsPort=0',
  ]
  const server: ChildProcess = spawn(
    peer('python/bin/weed'),
    ['server', ...loopback, '-s3', `-s3.port=${port}`, ...all, ...tls, ...off],
    { stdio: 'ignore', cwd: directory },
  )
  const ended = once(server, 'exit')
  const env = { AWS_ACCESS_KEY_ID: KEY.accessKey, AWS_SECRET_ACCESS_KEY: KEY.secretKey }
  const endpoint = `https://localhost:${port}`
  const sign = ['--aws-sigv4', 'aws:amz:us-east-1:s3', '--user', `${KEY.accessKey}:${KEY.secretKey}`]
  await until('a bucket is made', async () => {
    const made = await run('curl', ['-sf', '--cacert', caFile, ...sign, '-X', 'PUT', `${endpoint}/${BUCKET}`])
    return made.code === 0
  })
  return {
    endpoint,
    bucket: BUCKET,
    caFile,
    env,
    async stop() {
      await kill(server.pid)
      await ended
    },
  }
}
