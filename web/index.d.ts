/** The access to a zone: "ro" for reading only. */
export type ZoneMode = 'ro' | 'rw';

export interface Zone {
	mode: ZoneMode;
	/** Only files with these endings, such as [".md"]. */
	suffixes?: string[];
	/** The largest file that can be written. */
	maxFileBytes?: number;
}

/** A rule says what must happen before an effect. The rule with the longest target holds. */
export interface Rule {
	verb: 'read' | 'write' | 'delete' | 'use';
	/** A name of a file or directory, "/" for all of them; for "use" the name of a tool, or "*". */
	target: string;
	level: 'blocked' | 'ask' | 'preApproved';
}

export interface SandboxConfig {
	/** The directories of the workspace: the zone "docs" is at /docs. */
	zones: Record<string, Zone>;
	/** Patterns of names that nothing changes, such as ".git". */
	protect?: string[];
	/** Without a rule, a model may read, and everything else needs approval. */
	rules?: Rule[];
	/** The tools that a model may call. Without it: all file tools. */
	tools?: string[];
}

/** A change of one file, exactly as the sandbox will make it. */
export interface Change {
	op: 'create' | 'update' | 'delete' | 'move' | 'copy' | 'read';
	path: string;
	to?: string;
	/** A unified diff. */
	diff?: string;
	/** Why the diff is missing. */
	omitted?: string;
}

/** A call of a model that needs approval. Its texts come from the model: escape them. */
export interface ApprovalRequest {
	id: string;
	tool: string;
	args: unknown;
	effects: string[];
	changes: Change[];
	/** Everything that an approval covers. An item that is not complete cannot be shown. */
	items: {name: string; text: string; complete: boolean}[];
	/** What to look at first. */
	risks: string[];
	why?: string;
	/** The hash of exactly this call with its changes. */
	digest: string;
}

export interface Decision {
	approved: boolean;
	/** Who decided, for the journal. */
	by?: string;
	/** The reason, for the model. */
	note?: string;
	/** At least 8 digits of the digest that a person typed, if an item is not complete. */
	digest?: string;
}

export interface FileStat {
	path: string;
	size: number;
	isFile: boolean;
	isDirectory: boolean;
	modified: Date;
	mode: string;
	version: string;
}

/** A tool as generateText and streamText of the AI SDK take it. */
export interface SandboxTool {
	description: string;
	inputSchema: any;
	/** Makes the call, after approval if the rules ask for it. */
	execute(args: any): Promise<string>;
}

export interface Sandbox {
	read(path: string): Promise<string>;
	readBinary(path: string): Promise<Uint8Array>;
	write(path: string, content: string): Promise<void>;
	writeBinary(path: string, content: Uint8Array): Promise<void>;
	delete(path: string): Promise<void>;
	exists(path: string): Promise<boolean>;
	/** The names in a directory. Those of directories end with "/". */
	list(path: string): Promise<string[]>;
	stat(path: string): Promise<FileStat>;
	/** The name without "." and "..", if the sandbox shows it. */
	resolve(path: string): Promise<string>;
	isValidPath(path: string): Promise<boolean>;
	canWrite(path: string): Promise<boolean>;
	getConfig(): Promise<SandboxConfig>;
	/** "" for a zone that the sandbox does not show. */
	getZoneAccess(zone: string): Promise<ZoneMode | ''>;
	getAvailableZones(): Promise<string[]>;
	/** A smaller sandbox of the same workspace. */
	restrict(limits: {restrict?: string; readonly?: boolean}): Promise<Sandbox>;
	/** Tools for a model. Each call passes the rules, the approval and the journal. */
	tools(): Record<string, SandboxTool>;
	/** Checks the hash chain of the journal. */
	verify(): Promise<{ok: boolean; records: number; problem?: string}>;
	/** The journal as lines of JSON, for `golem audit verify FILE`. */
	exportJournal(): Promise<Uint8Array>;
	/** Opens a branch at GitHub. Only the memory of the Worker has the token, until close. */
	github(options: GitHubOptions): Promise<GitHub>;
	close(): Promise<void>;
}

export interface GitHubOptions {
	/** owner/name */
	repository: string;
	branch: string;
	token?: string;
	/** The address of a GitHub Enterprise, such as "https://github.example.com/api/v3". */
	api?: string;
}

/** A commit that waits for push. Its texts come from files: escape them. */
export interface StagedCommit {
	id: string;
	/** The hash of the git tree. push makes exactly this tree. */
	digest: string;
	/** The commit before it. */
	base: string;
	message: string;
	changes: (Change & {risks: string[]})[];
}

export interface GitHub {
	/** Writes files of the branch into a directory of the sandbox: docs/a.md becomes DIR/docs/a.md. */
	pull(options: {
		/** Files and directories in the repository. */
		paths: string[];
		dir: string;
		/** Also files that differ here. Without it, they are an error, and nothing is pulled. */
		replace?: boolean;
	}): Promise<{commit: string; files: string[]}>;
	/** Prepares a commit of files. One that is missing in the sandbox is deleted. Nothing is sent. */
	stage(options: {paths: string[]; dir: string; message: string}): Promise<StagedCommit>;
	/** Makes the commit, and moves the branch if nobody else has moved it. */
	push(staged: StagedCommit, options?: {by?: string}): Promise<{commit: string}>;
}

export interface SandboxOptions {
	/** At most 64 letters, digits, "-" and "_". One tab at a time can open a workspace. */
	workspaceId: string;
	/** Without it: the zones "cache" and "workspace", for reading and writing. */
	config?: SandboxConfig;
	/** Decides about a call of a model. Without it, calls that need approval are declined. */
	approve?(request: ApprovalRequest): Decision | Promise<Decision>;
}

export class SandboxError extends Error {
	/** Such as "not_found", "outside", "read_only", "declined" or "limit". */
	readonly code: string;
	readonly path?: string;
	constructor(failure: {code: string; message: string; path?: string});
}

export function createBrowserSandbox(options: SandboxOptions): Promise<Sandbox>;
