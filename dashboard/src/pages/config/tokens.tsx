/** Admin tokens: who holds which role, a new one whose secret is shown once, and what each role may do. */
import { useSignal } from '@preact/signals'
import type { Shown } from '../../../../src/records/entities/shown.ts'
import type { TOKEN } from '../../../../src/records/entities/token.ts'
import { hasRole, offlineSince, readAll, session, useResource, write } from '../../api.ts'
import { moment } from '../../format.ts'
import type { TeamRecord } from '../../key-records.ts'
import { actKey, type DialogEnd, Form } from '../../parts/changing.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { PlainTable } from '../../parts/plain-table.tsx'
import { SecretDialog } from '../../parts/secret-dialog.tsx'
import { Failed, Loading, Time } from '../../parts/states.tsx'
import { ROLE_NAMES } from '../../roles.ts'
import { toast } from '../../store.ts'
import { en } from '../../words/en.ts'
import { setup } from '../../words/setup.ts'
import { Needs } from './needs.tsx'
import type { TeamNames } from './person-parts.tsx'

const { tokens: text } = setup

type TokenRecord = Shown<typeof TOKEN>

const MOST = { tokens: 1_000, teams: 5_000 }
const states: { readonly [state: string]: string } = text.states

const isOver = ({ expires_at: end }: TokenRecord): boolean => end !== null && Date.parse(end) <= Date.now()
const stateOf = (token: TokenRecord): string => (token.status === 'active' && isOver(token) ? 'expired' : token.status)

type TokensProps = {
  readonly tokens: readonly TokenRecord[]
  readonly teams: TeamNames
  readonly revoke: (token: TokenRecord) => void
}

const Tokens = ({ tokens, teams, revoke }: TokensProps) => (
  <PlainTable
    label={text.title}
    rows={tokens}
    keyOf={({ id }) => id}
    columns={[
      {
        name: text.columns.name,
        cell: ({ id, name, last4 }) => (
          <>
            {name} <span class="mono dim small">…{last4}</span>
            {session.value?.actor.id === id && <span class="badge">{text.own}</span>}
          </>
        ),
      },
      {
        name: text.columns.roles,
        cell: ({ bindings }) =>
          bindings
            .map(({ role, team }) => text.role(role, team === null ? null : (teams.get(team) ?? team)))
            .join(', '),
      },
      {
        name: text.columns.state,
        cell: (token) => {
          const state = stateOf(token)
          return (
            <span class={state === 'active' ? 'ok' : 'dim'}>
              <span aria-hidden="true">{state === 'active' ? '●' : '✗'}</span> {states[state] ?? state}
            </span>
          )
        },
      },
      {
        name: text.columns.expires,
        cell: ({ expires_at: at }) =>
          at === null ? (
            <span class="dim">{text.never}</span>
          ) : (
            <Time at={at}>{new Date(at).toLocaleDateString(undefined, { dateStyle: 'medium' })}</Time>
          ),
      },
      {
        name: text.columns.used,
        cell: ({ last_used_at: at }) =>
          at === null ? <span class="dim">{text.never}</span> : <Time at={at}>{moment(Date.parse(at))}</Time>,
      },
      { name: text.columns.made, cell: ({ created_by: by }) => by },
      {
        name: '',
        cell: (token) =>
          token.status === 'active' && (
            <button
              type="button"
              class="button small danger"
              aria-label={`${text.revoke}: ${token.name}`}
              disabled={offlineSince.value !== null}
              onClick={() => revoke(token)}
            >
              {text.revoke}
            </button>
          ),
      },
    ]}
  />
)

type Made = { readonly name: string; readonly secret: string | null }
type NewTokenProps = DialogEnd & { readonly teams: TeamNames; readonly made: (token: Made) => void }

const NewToken = ({ teams, made, close, reload }: NewTokenProps) => {
  const act = useSignal(actKey())
  const send = async (data: FormData) => {
    const textIn = (name: string) => String(data.get(name) ?? '').trim()
    const [name, team, end] = [textIn('name'), textIn('team'), textIn('expires')]
    const { secret = null } = await write<{ readonly secret?: string | null }>(
      'POST',
      '/tokens',
      {
        name,
        bindings: [{ role: textIn('role'), team: team === '' ? null : team }],
        // The whole last day, in the zone of the browser.
        expires_at: end === '' ? null : new Date(`${end}T23:59:59`).toISOString(),
      },
      { idempotencyKey: act.value },
    )
    toast(text.created(name))
    reload()
    made({ name, secret })
  }
  return (
    <Dialog title={text.new} onClose={close}>
      <Form
        send={send}
        close={close}
        submit={text.create}
        onInput={() => {
          act.value = actKey()
        }}
      >
        <label class="field">
          {text.nameField}
          <input name="name" required data-focus maxLength={64} autocomplete="off" />
        </label>
        <div class="fields">
          <label class="field">
            {text.roleField}
            <select name="role">
              {ROLE_NAMES.map((role) => (
                <option key={role}>{role}</option>
              ))}
            </select>
          </label>
          <label class="field">
            {text.teamField}
            <select name="team">
              <option value="">{text.allTeams}</option>
              {[...teams].map(([id, name]) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        </div>
        <label class="field">
          {text.expiresField}
          <input name="expires" type="date" />
        </label>
      </Form>
    </Dialog>
  )
}

const Revoke = ({ token, close, reload }: DialogEnd & { readonly token: TokenRecord }) => (
  <Dialog title={text.revokeTitle(token.name)} onClose={close}>
    <Form
      close={close}
      submit={text.revoke}
      danger
      send={async () => {
        await write('DELETE', `/tokens/${token.id}`, undefined, { rev: token.rev })
        toast(text.revoked(token.name))
        reload()
        close()
      }}
    >
      <p>{text.revokeAbout}</p>
      {session.value?.actor.id === token.id && <p class="warn">▲ {text.own}</p>}
    </Form>
  </Dialog>
)

/** From which role on, and whether a role for one team suffices for what is of that team. As in the table of the admin API. */
const ACTS = [
  ['read', 'viewer', true],
  ['settings', 'viewer', false],
  ['team', 'operator', true],
  ['act', 'operator', false],
  ['keys', 'admin', true],
  ['rule', 'admin', false],
] as const

const RoleTable = () => (
  <section class="stack">
    <h2>{text.roles}</h2>
    <PlainTable
      label={text.roles}
      rows={ACTS}
      keyOf={([act]) => act}
      columns={[
        { name: text.action, cell: ([act]) => text.acts[act] },
        ...ROLE_NAMES.map((role) => ({
          name: role,
          cell: ([, least]: (typeof ACTS)[number]) =>
            ROLE_NAMES.indexOf(role) >= ROLE_NAMES.indexOf(least) ? (
              <span class="ok">✓ {text.may}</span>
            ) : (
              <span class="dim">– {text.mayNot}</span>
            ),
        })),
        { name: text.oneTeam, cell: ([, , isOfTeam]) => (isOfTeam ? text.ofTeam : text.notOfTeam) },
      ]}
    />
  </section>
)

const TokenList = () => {
  const open = useSignal<'new' | TokenRecord | null>(null)
  const made = useSignal<Made | null>(null)
  const { value, problem, reload } = useResource('tokens', () =>
    readAll<TokenRecord>('/tokens', { sort: 'status' }, MOST.tokens),
  )
  const named = useResource('teams', () => readAll<TeamRecord>('/teams', { sort: 'name' }, MOST.teams))
  const teams: TeamNames = new Map(named.value?.data.map(({ id, name }) => [id, name]))
  const close = () => {
    open.value = null
  }
  const shown = open.value
  return (
    <section class="stack">
      <div class="row">
        <h2>{text.title}</h2>
        <button
          type="button"
          class="button primary"
          disabled={offlineSince.value !== null}
          onClick={() => {
            open.value = 'new'
          }}
        >
          {text.new}
        </button>
        <span class="dim">{offlineSince.value === null ? text.about : en.states.offlineWrite}</span>
      </div>
      {problem && <Failed problem={problem} retry={reload} />}
      {!value && !problem && <Loading />}
      {value?.data.length === 0 && <p class="dim">{text.none}</p>}
      {value && value.data.length > 0 && (
        <Tokens
          tokens={value.data}
          teams={teams}
          revoke={(token) => {
            open.value = token
          }}
        />
      )}
      {shown === 'new' && (
        <NewToken
          teams={teams}
          close={close}
          reload={reload}
          made={(token) => {
            open.value = null
            made.value = token
          }}
        />
      )}
      {shown !== null && shown !== 'new' && <Revoke token={shown} close={close} reload={reload} />}
      {made.value && (
        <SecretDialog
          {...made.value}
          variable="HEADGATE_ADMIN_TOKEN"
          done={() => {
            made.value = null
          }}
        />
      )}
    </section>
  )
}

export const TokensSection = () => (
  <div class="stack">
    {hasRole('admin', 'all') ? <TokenList /> : <Needs why={text.needs} />}
    <RoleTable />
  </div>
)
