// What a person's app has of the package.

import { open } from "pipkin";

const db = await open("app");
await db.json().update("visits", (visits) => (visits ?? 0) + 1, { durability: "strict" });
document.title = `visit ${await db.json().get("visits")}`;
