import { Suspense, useEffect, useState } from 'react'
import { lazyPage } from '../parts/lazy_page.ts'

const Palette = lazyPage(async () => (await import('./palette.tsx')).Palette)

const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent)

/** The button and the key (Ctrl-K, ⌘K) that open the palette, which is loaded then. */
export function OpenPalette() {
  const [isOpen, setOpen] = useState(false)
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(isMac ? event.metaKey : event.ctrlKey) || event.altKey) return
      event.preventDefault()
      setOpen((before) => !before)
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  return (
    <>
      <button type="button" className="open-palette" onClick={() => setOpen(true)}>
        Go to … <kbd>{isMac ? '⌘K' : 'Ctrl K'}</kbd>
      </button>
      {isOpen && (
        <Suspense>
          <Palette close={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  )
}
