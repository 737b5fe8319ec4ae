import { Dialog } from '@base-ui/react/dialog'
import { Suspense } from 'react'
import type { Branch, Endpoint } from '../api.ts'
import { lazyPage } from '../parts/lazy_page.ts'
import { Loading } from '../parts/states.tsx'

const ConnectPanel = lazyPage(async () => (await import('./connect/connect_panel.tsx')).ConnectPanel)

/** A button, and the dialog with ways to connect to a branch that it opens. */
export function ConnectBranch({
  branch,
  endpoint,
}: {
  readonly branch: Branch
  readonly endpoint: Endpoint | undefined
}) {
  return (
    <Dialog.Root>
      <Dialog.Trigger
        disabled={!endpoint}
        title={endpoint ? undefined : 'The branch has no compute: open the branch to add one.'}
      >
        Connect
      </Dialog.Trigger>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog wide">
          <Dialog.Title>Connect to {branch.name}</Dialog.Title>
          <Suspense fallback={<Loading what="Loading the page" />}>
            <ConnectPanel branch={branch} />
          </Suspense>
          <div className="buttons">
            <Dialog.Close className="main">Done</Dialog.Close>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}
