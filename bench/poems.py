"""Whether what a model of Tang poems writes has their form: lines of one length, in couplets, that rhyme.

    python bench/poems.py MODEL [--samples 20] [--seed 1] [--temperature 0.8] [--json FILE]
    python bench/poems.py --held-out tang-poems/test.tsv

A poem is couplets `line，line。`. Its lines have 5 or 7 characters each, all the same number, and there are at
least two couplets. It rhymes where the characters before all of its full stops share a rhyme group. The groups are the
thirty of the level tones in the rhyme books of the time, with what poets use of them. An end that is in none of them is
not judged (most are of the other tones, in which poems of the older style rhyme), and neither is a poem with fewer than
two judged ends. The second command judges real poems, and the same ones with their ends dealt out anew, so that the
table itself can be judged: of 6,000 drawn from the Complete Tang Poems 90 % rhyme, and 2 % when dealt anew.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

GROUPS = {
    "東": "東同銅桐筒童僮瞳中衷忠蟲終戎崇嵩弓躬宮融雄熊穹窮馮風楓豐充隆空公功工攻蒙濛籠聾瓏櫳洪紅鴻虹叢翁匆蔥聰驄通"
    "蓬篷烘潼朧",
    "冬": "冬農宗鐘鍾龍舂松衝容蓉庸封胸雍濃重從逢縫蹤茸峰鋒烽蛩慵恭供悰淙儂凶墉溶憧",
    "江": "江杠釭扛窗邦缸降雙龐腔撞幢樁",
    "支": "支枝移爲為垂吹陂碑奇宜儀皮兒離施知馳池規危夷師姿遲眉悲之芝時詩棋旗辭詞期祠基疑姬絲司葵醫帷思滋持隨癡維卮"
    "巵螭麾墀彌慈遺肌脂雌披嬉炊湄籬茲差疲茨卑虧蕤騎歧岐誰斯私窺熙欺疵羈髭頤資糜衰錐夔祇涯伊追緇箕治而推縻犧騏"
    "嵋漪曦璃驪罹",
    "微": "微薇暉輝徽揮韋圍幃闈違霏菲妃飛非扉肥威祈旂畿機幾稀希衣依歸饑飢磯欷緋晞葳巍沂",
    "魚": "魚漁初書舒居裾車渠余予譽輿餘胥狙鋤疏疎蔬梳虛噓徐豬閭廬驢諸除儲如墟與畬於蕖茹沮祛袪蜍",
    "虞": "虞愚娛隅芻無蕪巫于盂衢儒濡襦須株誅蛛殊瑜榆諛腴區驅軀朱珠趨扶符鳧雛敷夫膚紆輸樞廚俱駒模謨蒲胡湖瑚乎壺狐弧"
    "孤辜姑菰徒途塗荼圖屠奴呼吾梧吳租盧鱸爐蘆蘇酥烏枯都鋪竽吁迂拘鬚逾踰鴣沽",
    "齊": "齊黎犁梨妻萋淒悽低題提蹄啼堤隄雞鷄稽兮奚蹊谿溪霓倪猊西棲栖犀嘶梯鼙批迷泥攜畦閨圭躋",
    "佳": "佳街鞋牌柴釵差涯崖偕階皆諧骸排乖懷淮豺儕埋霾齋娃蝸槐",
    "灰": "灰恢魁隈回迴徊槐枚梅媒煤瑰雷催摧堆陪杯醅嵬推開哀埃臺苔該才材財裁來萊栽哉災猜胎台孩頹崔裴培纔腮罍徘皚咍",
    "真": "真眞因茵辛新薪晨辰臣人仁神親申伸身賓濱鄰鱗麟珍塵陳春津秦頻蘋顰銀垠筠巾民貧淳醇純唇倫輪淪勻旬巡馴均臻榛姻"
    "宸寅嬪彬紳遵循振椿鈞綸逡峋",
    "文": "文聞紋雲云氛分紛芬焚墳羣群裙君軍勤斤筋勳薰曛醺芸耘芹欣氳殷",
    "元": "元原源園猿猨轅垣煩繁蕃樊翻萱喧冤言軒藩魂渾溫孫門尊樽存蹲敦墩暾屯豚村盆奔論坤昏婚痕根恩吞援媛番鵷蓀",
    "寒": "寒韓翰丹單安難餐灘壇檀彈殘干肝竿乾闌欄瀾蘭看刊丸桓紈端湍酸團摶攢官觀冠鸞鑾巒歡寬盤蟠漫鄲珊",
    "刪": "刪潸關彎灣還環鬟寰班斑般蠻顏姦攀頑山鰥艱閑閒間慳潺",
    "先": "先前千阡箋鞭天堅肩賢弦絃煙燕蓮憐田填巔年顛牽妍眠淵涓邊編懸泉遷仙鮮錢煎然延筵氈蟬纏連聯漣篇偏緜綿全宣穿川"
    "緣鳶捐旋娟船專圓員虔權拳椽傳焉芊鵑翩躔筌涎玄便",
    "蕭": "蕭簫瀟挑貂刁凋雕鵰迢條跳蜩苕調梟澆聊遼寥撩僚堯宵消霄綃銷超朝潮囂樵驕嬌焦蕉椒饒橈燒遙姚搖謠瑤韶昭招飆標鑣"
    "瓢苗描腰邀鴞喬橋僑妖漂飄翹",
    "肴": "肴巢交郊茅嘲包膠爻苞梢蛟教庖匏坳敲拋鮫捎",
    "豪": "豪毫操髦刀萄猱桃糟袍撓蒿濤皋號陶翱敖遭篙羔高嘈搔毛艘滔騷韜膏牢醪逃槽勞叨旄褒曹鼇濠",
    "歌": "歌多羅河戈阿和波科柯娥蛾鵝蘿荷何過磨螺禾窠哥娑駝沱峨那苛珂軻莎蓑梭婆摩魔訛坡頗俄哦呵渦窩迦跎酡蹉嵯",
    "麻": "麻花霞家茶華沙車牙蛇瓜斜邪芽嘉瑕紗鴉遮叉葩奢琶衙賒涯夸巴加耶嗟遐笳差譁蝦葭呀蝸槎砂",
    "陽": "陽楊揚香鄉光昌堂章張王房芳長塘妝粧常涼霜藏場央鴦秧狼牀床方漿觴梁娘莊黃倉皇裝腸襄驤相湘箱廂創忘芒望嘗償檣"
    "坊囊郎唐狂強康岡蒼荒遑行妨棠翔良航疆羌僵糧穰將牆墻桑剛祥詳洋粱量羊傷湯彰璋商防筐煌篁徨凰惶鏘邙",
    "庚": "庚更羹盲橫觥彭棚亨英瑛烹平評京驚荊荆明盟鳴榮兵卿生甥笙牲擎鯨迎行衡耕萌宏莖鶯櫻泓爭箏清情晴精睛菁旌晶盈瀛"
    "嬴營嬰纓貞成盛城誠呈程聲征正輕名令并傾縈瓊崢枰",
    "青": "青經涇形刑型亭庭廷霆蜓停寧丁釘馨星腥醒惺靈櫺齡鈴苓伶零泠玲翎聽汀冥溟螟銘瓶屏萍熒螢扃坰",
    "蒸": "蒸承丞懲陵凌綾菱冰膺鷹應蠅繩澠乘升勝昇興憑仍兢矜徵凝稱登燈僧崩增曾憎層能稜朋鵬弘肱騰滕藤恆",
    "尤": "尤郵優憂流留榴騮劉由油游遊猷悠攸牛修脩羞秋楸周州洲舟酬仇讎柔儔疇籌稠丘邱抽湫遒收鳩不愁休囚求裘毬浮謀眸矛"
    "侯猴喉謳漚鷗甌樓偷頭投鉤溝幽虯綢彪騶搜",
    "侵": "侵尋潯林霖臨鍼針箴斟沈沉深淫心琴禽擒欽衾吟今襟金音陰岑簪森參砧",
    "覃": "覃潭參驂南男諳庵含涵函嵐蠶探貪耽龕堪談甘三酣柑慚藍擔曇楠",
    "鹽": "鹽簷檐廉簾嫌嚴占髯謙纖籤瞻蟾炎添兼縑霑尖潛閻鐮粘淹甜恬拈沾",
    "咸": "咸鹹函緘讒銜巖岩帆衫杉監凡饞芟",
}
"""The level rhymes (平水韻); a character with two readings stands in both."""
OF = {c: {name for name, members in GROUPS.items() if c in members} for c in "".join(GROUPS.values())}
LINE = re.compile(r"[^，。？！；]+[，。？！；]")


@dataclass(frozen=True)
class Form:
    """What of the form a poem has; `rhymes` is None where too few of its ends are in the table."""

    length: int | None
    """Characters of each line; None: they differ, or are neither 5 nor 7."""
    couplets: bool
    rhymes: bool | None

    @property
    def regular(self) -> bool:
        return self.length is not None and self.couplets


def form_of(poem: str) -> Form:
    """The form of a poem's text, punctuation included."""
    lines = LINE.findall(poem)
    lengths = {len(line) - 1 for line in lines}
    length = lengths.pop() if len(lengths) == 1 and lengths <= {5, 7} else None
    whole = "".join(lines) == poem
    couplets = whole and len(lines) >= 4 and len(lines) % 2 == 0 and all(line[-1] != "，" for line in lines[1::2])
    return Form(length, couplets, rhymes([line[-2] for line in lines[1::2]]))


def rhymes(ends: Sequence[str]) -> bool | None:
    """Whether those of the ends that the table has share a group; None where it has fewer than two different ones."""
    known = [OF[end] for end in dict.fromkeys(ends) if end in OF]
    return None if len(known) < 2 else bool(set.intersection(*known))


def summary(poems: Iterable[str]) -> dict[str, float | int]:
    """How many of the poems have which part of the form."""
    forms = [form_of(poem) for poem in poems]
    judged = [form for form in forms if form.rhymes is not None]
    return {
        "poems": len(forms),
        "regular": sum(form.regular for form in forms),
        "rhyme_judged": len(judged),
        "rhyme": sum(bool(form.rhymes) for form in judged),
        **{f"of_{n}_characters": found for n, found in Counter(form.length for form in forms if form.regular).items()},
    }


def with_ends_dealt_anew(poems: Sequence[str], seed: int) -> list[str]:
    """The same poems, each rhyme taken from another place: what a writer who knows no rhyme would give."""
    cut = [re.split(r"(?<=.)(.)(?=[。？！；])", poem) for poem in poems]
    ends = [end for parts in cut for end in parts[1::2]]
    random.Random(seed).shuffle(ends)
    dealt = iter(ends)
    return ["".join(next(dealt) if i % 2 else part for i, part in enumerate(parts)) for parts in cut]


def write_poems(model: str, count: int, seed: int, temperature: float) -> list[str]:
    """So many poems from nothing, each drawn with a seed of its own."""
    import regard

    writer = regard.load(model)
    found = writer.generate("", max_tokens=120, temperature=temperature, seed=seed, n=count)  # each by its own seed
    return [found.text, *(other.text for other in found.alternatives)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--held-out", type=Path)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: dict[str, object] = {}
    if given.held_out:
        poems = [line.split("\t")[2] for line in given.held_out.read_text(encoding="utf-8").splitlines()]
        found["held out"] = summary(poems)
        found["held out, ends dealt anew"] = summary(with_ends_dealt_anew(poems, given.seed))
    if given.model:
        poems = write_poems(given.model, given.samples, given.seed, given.temperature)
        for poem in poems:
            form = form_of(poem)
            verdict = {True: "rhymes", False: "does not rhyme", None: "rhyme not judged"}[form.rhymes]
            print(f"{poem}   [{f'{form.length} characters' if form.regular else 'irregular'}, {verdict}]")
        found[given.model] = summary(poems)
    for name, facts in found.items():
        print(name, json.dumps(facts))
    if given.json:
        given.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
