import { useState } from 'react'
import { BASE, type Prepared } from '../api.ts'
import { Copied } from './copied.tsx'
import { shellWord } from './shell_word.ts'

/** The request of a form as commands for a terminal: what can be clicked can be scripted. */
export function AsCommand({
  request,
  neap,
  onOpen,
}: {
  readonly request: () => Prepared<unknown>
  readonly neap?: (() => readonly string[]) | undefined
  readonly onOpen: () => void
}) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details
      className="commands"
      onToggle={({ currentTarget }) => {
        onOpen()
        setOpen(currentTarget.open)
      }}
    >
      <summary>As a command</summary>
      {isOpen && <Commands request={request} neap={neap} />}
    </details>
  )
}

function Commands({
  request,
  neap,
}: {
  readonly request: () => Prepared<unknown>
  readonly neap: (() => readonly string[]) | undefined
}) {
  const prepared = attempt(request)
  if (prepared instanceof Error) return <small>{prepared.message}</small>
  return (
    <>
      <Copied text={curl(prepared)} what="the curl command" />
      {neap && <Copied text={['npx', 'neap', ...neap().map(shellWord)].join(' ')} what="the neap command" />}
    </>
  )
}

function attempt(request: () => Prepared<unknown>): Prepared<unknown> | Error {
  try {
    return request()
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

function curl({ method, path, body }: Prepared<unknown>): string {
  return [
    `curl -X ${method} ${shellWord(`${location.origin}${BASE}${path}`)}`,
    '-H "Authorization: Bearer $NEAP_API_KEY"',
    ...(body === undefined ? [] : ["-H 'Content-Type: application/json'", `-d ${shellWord(JSON.stringify(body))}`]),
  ].join(' ')
}
