/** Where a repository is, as its user writes it, in the options of pgBackRest (pgbackrest.org/configuration.html). */
import { isAbsolute } from 'node:path'
import { UsageError } from '../errors.ts'

/** Access to a repository. */
export interface RepositoryAccess {
  /** Of an S3 other than Amazon's: its HTTPS address. */
  readonly s3Endpoint?: string | undefined
  readonly s3Region?: string | undefined
  readonly s3KeyId?: string | undefined
  readonly s3Secret?: string | undefined
  /** A file with the authorities that certify the server of an S3. */
  readonly caFile?: string | undefined
  /** A file with the private key for SFTP. */
  readonly sftpKey?: string | undefined
  /** The SHA-256 of the host's key, as `ssh-keygen -l` prints it; without it the host is in the user's known_hosts. */
  readonly sftpFingerprint?: string | undefined
}

const EXPECTED =
  'It is a directory (/mnt/backups), a bucket (s3://bucket/path) or a directory by SFTP (sftp://user@host/path).'

/** Errors: UsageError. */
export function repositoryOptions(location: string, access: RepositoryAccess): Record<string, string> {
  if (isAbsolute(location)) return { 'repo1-type': 'posix', 'repo1-path': location }
  if (!URL.canParse(location)) throw new UsageError(`'${location}' names no repository. ${EXPECTED}`)
  const url = new URL(location)
  if (url.protocol === 's3:') return s3Options(url, access)
  if (url.protocol === 'sftp:') return sftpOptions(url, access)
  throw new UsageError(`'${location}' names no repository. ${EXPECTED}`)
}

function s3Options(url: URL, access: RepositoryAccess): Record<string, string> {
  const { s3Endpoint, s3Region = 'us-east-1', s3KeyId, s3Secret, caFile } = access
  if (s3KeyId === undefined || s3Secret === undefined)
    throw new UsageError('A bucket is reached by a key: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.')
  const own = s3Endpoint === undefined ? {} : endpointOptions(s3Endpoint)
  return {
    'repo1-type': 's3',
    'repo1-path': url.pathname === '' ? '/' : url.pathname,
    'repo1-s3-bucket': url.hostname,
    'repo1-s3-endpoint': `s3.${s3Region}.amazonaws.com`,
    'repo1-s3-region': s3Region,
    'repo1-s3-key': s3KeyId,
    'repo1-s3-key-secret': s3Secret,
    ...own,
    ...(caFile !== undefined && { 'repo1-storage-ca-file': caFile }),
  }
}

function endpointOptions(endpoint: string): Record<string, string> {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined
  if (url?.protocol !== 'https:')
    throw new UsageError(`'${endpoint}' is no address of an S3: it takes one of HTTPS, as https://s3.example.org.`)
  return {
    'repo1-s3-endpoint': url.hostname,
    'repo1-s3-uri-style': 'path',
    ...(url.port !== '' && { 'repo1-storage-port': url.port }),
  }
}

function sftpOptions(url: URL, { sftpKey, sftpFingerprint }: RepositoryAccess): Record<string, string> {
  if (url.username === '' || url.pathname === '' || sftpKey === undefined)
    throw new UsageError('SFTP takes a user, a path and a key: sftp://user@host/path and --sftp-key FILE.')
  return {
    'repo1-type': 'sftp',
    'repo1-path': url.pathname,
    'repo1-sftp-host': url.hostname,
    'repo1-sftp-host-user': url.username,
    'repo1-sftp-host-key-hash-type': 'sha256',
    'repo1-sftp-private-key-file': sftpKey,
    ...(url.port !== '' && { 'repo1-sftp-host-port': url.port }),
    ...(sftpFingerprint !== undefined && {
      'repo1-sftp-host-key-check-type': 'fingerprint',
      'repo1-sftp-host-fingerprint': fingerprintOf(sftpFingerprint),
    }),
  }
}

/** In hexadecimal digits, as pgBackRest takes it. */
function fingerprintOf(printed: string): string {
  const digest = Buffer.from(printed.replace(/^SHA256:/, ''), 'base64')
  if (digest.length !== 32)
    throw new UsageError(`'${printed}' is no fingerprint: give the SHA256:… of ssh-keygen -lf HOST_KEY.pub`)
  return digest.toString('hex')
}
