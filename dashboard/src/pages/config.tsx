/** Configuration: what runs and where it comes from, what is wrong with the file, what changed, and a copy to edit. */
import { identityProviders, read, useResource } from '../api.ts'
import { moment } from '../format.ts'
import { late } from '../parts/late.tsx'
import { Failed, Loading, PageHead } from '../parts/states.tsx'
import { current, pageHref } from '../store.ts'
import { config as texts } from '../words/config.ts'
import { en } from '../words/en.ts'
import { AlertsSection } from './config/alerts.tsx'
import { Audit } from './config/audit.tsx'
import { BackupSection } from './config/backup.tsx'
import { People } from './config/people.tsx'
import { Policy } from './config/policy.tsx'
import { CopyProblems, ProblemList, WarningList } from './config/problems.tsx'
import { Reloads } from './config/reloads.tsx'
import { Settings } from './config/settings.tsx'
import type { ConfigProblems, ShownConfig } from './config/shapes.ts'
import { TokensSection } from './config/tokens.tsx'

type WithConfig = { readonly config: ShownConfig | null }

const Edit = late<WithConfig>(() => import('./config/later.ts').then((module) => module.Edit))
const PricesSection = late(() => import('./config/later.ts').then((module) => module.PricesSection))

const SECTIONS = [
  'settings',
  'alerts',
  'prices',
  'tokens',
  'reloads',
  'audit',
  'policy',
  'people',
  'backup',
  'edit',
] as const
/** ms between two readings: another process or SIGHUP may reload. */
const EVERY = 15_000

const Problems = ({ since, problems, warnings }: ConfigProblems) => (
  <>
    {problems.length > 0 && (
      <section class="panel config-refused" aria-labelledby="config-refused">
        <div class="row">
          <h2 id="config-refused" class="bad">
            <span aria-hidden="true">✗</span> {texts.problems.title(problems.length)}
          </h2>
          <CopyProblems problems={problems} />
        </div>
        {since !== null && <p>{texts.problems.about(moment(Date.parse(since)))}</p>}
        <ProblemList problems={problems} />
      </section>
    )}
    <WarningList warnings={warnings} />
  </>
)

export const Page = () => {
  const section = SECTIONS.find((one) => one === current.value.id) ?? 'settings'
  const config = useResource('config', () => read<ShownConfig>('/config'), { every: EVERY })
  const providers = useResource('identity providers', identityProviders)
  // Without single sign-on there are no people.
  const sections = SECTIONS.filter((one) => one !== 'people' || section === one || (providers.value?.length ?? 0) > 0)
  const problems = useResource('config problems', () => read<ConfigProblems>('/config/problems'), { every: EVERY })
  return (
    <div class="config-page">
      <PageHead title={en.pages.config}>
        <nav class="segments config-sections" aria-label={texts.sections.label}>
          {sections.map((one) => (
            <a
              key={one}
              class="button quiet"
              href={pageHref('config', one === 'settings' ? null : one)}
              aria-current={section === one ? 'page' : undefined}
            >
              {texts.sections[one]}
            </a>
          ))}
        </nav>
      </PageHead>
      {problems.value && <Problems {...problems.value} />}
      {section === 'settings' &&
        (config.value ? (
          <Settings config={config.value} />
        ) : config.problem ? (
          <Failed problem={config.problem} retry={config.reload} />
        ) : (
          <Loading rows={12} />
        ))}
      {section === 'alerts' && <AlertsSection />}
      {section === 'prices' && <PricesSection />}
      {section === 'tokens' && <TokensSection />}
      {section === 'reloads' && <Reloads />}
      {section === 'audit' && <Audit />}
      {section === 'policy' && <Policy config={config.value ?? null} />}
      {section === 'people' && <People />}
      {section === 'backup' && <BackupSection />}
      {section === 'edit' && <Edit config={config.value ?? null} />}
    </div>
  )
}
