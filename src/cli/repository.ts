import { readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import type { RepositoryAccess } from '../backup/location.ts'
import { UsageError } from '../errors.ts'

/** The flags that say how a repository is reached. */
export interface RepositoryFlags {
  readonly s3Endpoint?: string
  readonly s3Region?: string
  readonly caFile?: string
  readonly sftpKey?: string
  readonly sftpFingerprint?: string
  readonly passphraseFile?: string
}

export function reachesRepository(command: Command): Command {
  return command
    .option('--passphrase-file <file>', "a file with the repository's passphrase; or set NEAP_BACKUP_PASSPHRASE")
    .option('--s3-endpoint <url>', "the HTTPS address of an S3 other than Amazon's")
    .option('--s3-region <region>', 'the region of the bucket')
    .option('--ca-file <file>', 'the authorities that certify that address')
    .option('--sftp-key <file>', 'the private key for SFTP')
    .option('--sftp-fingerprint <hash>', "the SHA256:… of the host's key, where no known_hosts has it")
}

/** Keys of an S3 are taken from its usual variables: a list of processes must not show them. */
export function accessOf(flags: RepositoryFlags, env: NodeJS.ProcessEnv): RepositoryAccess {
  const { s3Endpoint, s3Region, caFile, sftpKey, sftpFingerprint } = flags
  const { AWS_ACCESS_KEY_ID: s3KeyId, AWS_SECRET_ACCESS_KEY: s3Secret, AWS_REGION } = env
  return { s3Endpoint, s3Region: s3Region ?? AWS_REGION, caFile, sftpKey, sftpFingerprint, s3KeyId, s3Secret }
}

/** The given passphrase; undefined without it. Errors: UsageError. */
export async function givenPassphrase(
  { passphraseFile }: RepositoryFlags,
  { NEAP_BACKUP_PASSPHRASE: passphrase }: NodeJS.ProcessEnv,
): Promise<string | undefined> {
  if (passphraseFile === undefined) return passphrase === '' ? undefined : passphrase
  const text = await readFile(passphraseFile, 'utf8').catch(() => {
    throw new UsageError(`${passphraseFile} cannot be read: name the file that holds the passphrase.`)
  })
  if (text.trim() === '') throw new UsageError(`${passphraseFile} is empty: it takes a passphrase.`)
  return text.trim()
}
