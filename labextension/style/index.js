import './panel.css';
import './jobs.css';
import './jobview.css';
import './batch.css';
import './tab.css';
