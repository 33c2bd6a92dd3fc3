/** The data policy: facts of providers and what is missing, claims and whether they hold, and a box that proves one. */
import { useSignal } from '@preact/signals'
import { problemIn, read, useResource, write } from '../../api.ts'
import { Failed, Loading } from '../../parts/states.tsx'
import { useId } from '../../parts/use-id.ts'
import { config as texts } from '../../words/config.ts'
import type { ShownClaims, ShownConfig, ShownProof, ShownProvider } from './shapes.ts'
import { TeamPolicy } from './team-policy.tsx'

const { policy: words } = texts

/** ms between two readings: teams and keys change. */
const EVERY = 30_000

const Missing = () => (
  <span class="warn">
    <span aria-hidden="true">▲</span> {words.missing}
  </span>
)

const FactsRow = ({ provider: { id, facts } }: { readonly provider: ShownProvider }) => {
  const { region, retention, training, models = {} } = facts ?? {}
  const differing = Object.keys(models)
  return (
    <tr>
      <td class="mono">{id}</td>
      <td>{region ?? <Missing />}</td>
      <td>{retention === undefined ? <Missing /> : words.days(retention)}</td>
      <td>{training === undefined ? <Missing /> : words.training[training ? 'yes' : 'no']}</td>
      <td class="mono">{differing.length === 0 ? '–' : differing.join(', ')}</td>
    </tr>
  )
}

const Facts = ({ providers }: Pick<ShownConfig, 'providers'>) => (
  <section class="panel">
    <h2>{words.facts}</h2>
    <p class="small dim">{words.factsAbout}</p>
    <table class="table" data-columns="narrow" aria-label={words.facts}>
      <thead>
        <tr>
          {Object.values(words.columns).map((column) => (
            <th key={column} scope="col">
              {column}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {providers.map((provider) => (
          <FactsRow key={provider.id} provider={provider} />
        ))}
      </tbody>
    </table>
  </section>
)

/** Whether a claim holds. A mark beside the colour. */
const State = ({ state }: { readonly state: ShownClaims['data'][number]['state'] }) => (
  <span class={state === 'holds' ? 'ok' : 'bad'}>
    <span aria-hidden="true">{state === 'holds' ? '●' : '✗'}</span> {words.states[state]}
  </span>
)

const Claims = ({ claims }: { readonly claims: ShownClaims }) => (
  <section class="panel">
    <h2>{words.claims}</h2>
    {claims.data.length === 0 ? (
      <p class="dim">{words.noClaims}</p>
    ) : (
      <>
        <p class="small dim">{words.onFailure[claims.on_failure]}</p>
        <ul class="config-problems">
          {claims.data.map(({ claim, state, problem }) => (
            <li key={claim}>
              <State state={state} /> <span class="mono">{claim}</span>
              {problem !== null && <span>{problem}</span>}
            </li>
          ))}
        </ul>
      </>
    )}
  </section>
)

const Ways = ({ proof: { claim, holds, counterexamples, walked } }: { readonly proof: ShownProof }) => (
  <div role="status">
    <p>
      <State state={holds ? 'holds' : 'fails'} /> <span class="mono">{claim}</span>
    </p>
    <p class="small dim">{words.walked(walked.clients, walked.names)}</p>
    <ul class="config-problems">
      {counterexamples.map((one) => (
        <li key={JSON.stringify(one)}>{words.way(one)}</li>
      ))}
    </ul>
  </div>
)

const Prove = () => {
  const id = useId()
  const text = useSignal('')
  const result = useSignal<ShownProof | string | null>(null)
  const isBusy = useSignal(false)
  const prove = async () => {
    isBusy.value = true
    try {
      result.value = await write<ShownProof>('POST', '/prove', { claim: text.value })
    } catch (error) {
      result.value = problemIn(error).message
    }
    isBusy.value = false
  }
  return (
    <section class="panel">
      <h2>{words.prove}</h2>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault()
          void prove()
        }}
      >
        <label class="field" for={id}>
          {words.claim}
          <input
            id={id}
            class="mono"
            required
            maxLength={1000}
            autocomplete="off"
            spellcheck={false}
            placeholder="team=health: region in eu; retention=0"
            onInput={({ currentTarget }) => {
              text.value = currentTarget.value
            }}
          />
        </label>
        <div class="row">
          <button type="submit" class="button" disabled={isBusy.value}>
            {words.submit}
          </button>
        </div>
      </form>
      {typeof result.value === 'string' && (
        <p class="bad" role="alert">
          {result.value}
        </p>
      )}
      {result.value !== null && typeof result.value !== 'string' && <Ways proof={result.value} />}
    </section>
  )
}

export const Policy = ({ config }: { readonly config: ShownConfig | null }) => {
  const claims = useResource('claims', () => read<ShownClaims>('/claims'), { every: EVERY })
  return (
    <>
      {claims.value ? (
        <Claims claims={claims.value} />
      ) : claims.problem ? (
        <Failed problem={claims.problem} retry={claims.reload} />
      ) : (
        <Loading rows={4} />
      )}
      <TeamPolicy />
      <Prove />
      {config && <Facts providers={config.providers} />}
    </>
  )
}
