import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { ApiError, call } from '../../api.ts'
import { SnippetBlock } from '../../parts/snippet_block.tsx'
import { AUTHORITY_FILE } from './address.ts'

/** The certificates to verify this Neap with; undefined data where clients verify it by those of their system. */
export const useAuthority = () =>
  useQuery({
    queryKey: ['certificate authority'],
    staleTime: 60_000,
    queryFn: async () => {
      try {
        return (await call('GET /certificate_authority', {})).certificates
      } catch (error) {
        // A query has no undefined data: null says that there is none.
        if (error instanceof ApiError && error.status === 404) return null
        throw error
      }
    },
    select: (certificates) => certificates ?? undefined,
  })

/** The authority's file: to download, or to paste into a shell of the machine that connects. */
export function AuthorityFile({ text }: { readonly text: string }) {
  const [url, setUrl] = useState<string>()
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([text], { type: 'application/x-pem-file' }))
    setUrl(made)
    return () => URL.revokeObjectURL(made)
  }, [text])
  return (
    <details className="authority">
      <summary>
        First save the certificate authority as <code>{AUTHORITY_FILE}</code> where the program runs
      </summary>
      <p>
        <a href={url} download={AUTHORITY_FILE}>
          Download {AUTHORITY_FILE}
        </a>
        , or paste this into a shell there. It is no secret.
      </p>
      <SnippetBlock
        title="Shell"
        text={`cat > ${AUTHORITY_FILE} <<'END'\n${text.trimEnd()}\nEND`}
        what="the certificate authority"
      />
    </details>
  )
}
