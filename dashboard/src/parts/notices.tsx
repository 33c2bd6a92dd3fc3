/** The lines below the frame: what is wrong now, the worst first. */
import { useSignalEffect } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { offlineSince, session } from '../api.ts'
import { age } from '../format.ts'
import { retryAt, retryNow } from '../live.ts'
import { announce, announcement, type Notice, notice, now, removeNotice, shownNotices } from '../store.ts'
import { en } from '../words/en.ts'
import { late } from './late.tsx'

/** No live region: the countdowns in it would be spoken each second. What has begun or ended is announced once. */
const Line = ({ id, tone, text, link, action, dismissible }: Notice) => (
  <div class={`notice ${tone}`}>
    <span class="notice-mark" aria-hidden="true">
      {tone === 'plain' ? '•' : '▲'}
    </span>
    <span class="notice-text">{text}</span>
    {link && <a href={link.href}>{link.text}</a>}
    {action && (
      <button type="button" class="button quiet small" onClick={action.run}>
        {action.text}
      </button>
    )}
    {dismissible && (
      <button type="button" class="icon" aria-label={en.actions.dismiss} onClick={() => removeNotice(id)}>
        ×
      </button>
    )}
  </div>
)

/** Providers in trouble; the overview has them too. */
const Trouble = late(() => import('./trouble.tsx').then((module) => module.Trouble))

export const Notices = () => {
  const wasOffline = useRef(false)
  useSignalEffect(() => {
    const isOffline = offlineSince.value !== null
    if (isOffline !== wasOffline.current) announce(isOffline ? en.live.offlineNotice : en.live.onlineNotice)
    wasOffline.current = isOffline
  })
  useSignalEffect(() => {
    if (offlineSince.value === null) return removeNotice('offline')
    const wait = retryAt.value === null ? 0 : Math.max(0, retryAt.value - Date.now())
    void now.value
    notice({
      id: 'offline',
      rank: 100,
      tone: 'bad',
      text: `${en.live.offlineNotice} ${en.live.retryIn(age(wait))}`,
      action: { text: en.live.now, run: () => void retryNow() },
    })
  })
  useSignalEffect(() => {
    const tape = session.value?.tape
    if (tape) notice({ id: 'tape', rank: 50, tone: 'plain', text: en.live.tapeNotice[tape] })
  })
  return (
    <>
      <Trouble />
      {shownNotices.value.map((one) => (
        <Line key={one.id} {...one} />
      ))}
      <p class="sr-only" role="status">
        {announcement.value}
      </p>
    </>
  )
}
