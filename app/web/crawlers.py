"""sitemap.xml and robots.txt."""

from __future__ import annotations

from markupsafe import escape
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from app.web.routing import Route
from app.web.site import Site
from app.web.views import origin_of

_DAY = {"Cache-Control": "public, max-age=86400"}


def routes(site: Site) -> list[BaseRoute]:
    """`/sitemap.xml` and `/robots.txt`."""

    async def sitemap(request: Request) -> Response:
        origin = origin_of(request, site.settings)
        places = ["/", *(f"/chapters/{chapter.slug}" for chapter in site.chapters)]
        urls = "".join(f"<url><loc>{escape(origin + place)}</loc></url>" for place in places)
        return Response(
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>\n',
            headers=_DAY,
            media_type="application/xml",
        )

    async def robots(request: Request) -> Response:
        origin = origin_of(request, site.settings)
        # States are countless; a crawler needs each chapter once.
        return Response(
            "User-agent: *\nDisallow: /embed/\nDisallow: /api/\nDisallow: /download/\n"
            f"Disallow: /chapters/*/panels/\nDisallow: /*?\n\nSitemap: {origin}/sitemap.xml\n",
            headers=_DAY,
            media_type="text/plain",
        )

    return [Route("/sitemap.xml", sitemap), Route("/robots.txt", robots)]
