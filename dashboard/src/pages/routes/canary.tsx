/** The canary of a route: its step and share, why it was stopped, and what an operator does with it. */
import { useSignal } from '@preact/signals'
import type { Shown } from '../../../../src/records/entities/shown.ts'
import type { CANARY } from '../../../../src/server/answers/canaries.ts'
import { hasRole, write } from '../../api.ts'
import { minute, percent } from '../../format.ts'
import { Form } from '../../parts/changing.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { toast } from '../../store.ts'
import { routes as texts } from '../../words/routes.ts'

export type CanaryLine = Shown<typeof CANARY>
const { canary: words } = texts

type Action = keyof typeof words.actions
const ACTIONS: { readonly [status in CanaryLine['status']]: readonly Action[] } = {
  running: ['pause', 'promote', 'back'],
  paused: ['resume', 'promote', 'back'],
  stopped: ['resume'],
}

export const Canary = ({ canary, reload }: { readonly canary: CanaryLine; readonly reload: () => void }) => {
  const { route, target, status, step, steps, share, since, reason } = canary
  const asked = useSignal<Action | null>(null)
  const action = asked.value
  const close = () => {
    asked.value = null
  }
  return (
    <div class="routes-canary small">
      <span class={status === 'running' ? '' : 'warn'}>
        {words.state(words.status[status], step, steps.length, percent(share / 100))}
      </span>
      <span class="dim">{reason ?? words.since(minute(Date.parse(since)))}</span>
      {hasRole('operator', 'all') && (
        <div class="row">
          {ACTIONS[status].map((one) => (
            <button
              key={one}
              type="button"
              class="button quiet small"
              aria-label={words.ofRoute(words.actions[one], route)}
              onClick={() => {
                asked.value = one
              }}
            >
              {words.actions[one]}
            </button>
          ))}
        </div>
      )}
      {action && (
        <Dialog title={words.ofRoute(words.actions[action], route)} onClose={close}>
          <Form
            send={async () => {
              await write('POST', '/canaries', { route, action })
              toast(words.done(route))
              reload()
              close()
            }}
            close={close}
            submit={words.actions[action]}
            danger={action === 'back'}
          >
            <p>{words.about[action](target)}</p>
          </Form>
        </Dialog>
      )}
    </div>
  )
}
